"""The contracts of import-linter in pyproject.toml say what is meant, on trees that are made from their own layers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def contracts() -> list[dict[str, object]]:
    found: list[dict[str, object]] = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    return found


def plant(root: Path, module: str, text: str = "") -> None:
    """Write a module of the planted package and what lies above it."""
    *packages, name = module.split(".")
    folder = root
    for package in packages:
        folder = folder / package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    path = folder / name / "__init__.py" if (folder / name).is_dir() else folder / f"{name}.py"
    path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package `opal` with an empty module for each layer and each module that a contract names."""
    shutil.copy(PYPROJECT, tmp_path)
    for contract in contracts():
        for key in ("source_modules", "forbidden_modules", "modules"):
            for module in contract.get(key, []):  # type: ignore[attr-defined]
                plant(tmp_path, module)
        for line in contract.get("layers", []):  # type: ignore[attr-defined]
            for layer in re.findall(r"\w+", line):
                if not (tmp_path / "opal" / layer).is_dir():
                    plant(tmp_path, f"opal.{layer}")
    return tmp_path


def lint(tree: Path) -> str:
    """What `lint-imports` prints about the planted package."""
    environment = dict(os.environ, PYTHONPATH=str(tree), COLUMNS="200")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def test_downward_imports_keep_the_contracts(tree: Path) -> None:
    plant(tree, "opal.cli", "import opal.demo\nimport opal.errors\n")
    plant(tree, "opal.checks", "import opal.programs\nimport opal.kit\n")
    plant(tree, "opal.api", "from opal._version import x\n")
    plant(tree, "opal._version", "x = 1\n")
    printed = lint(tree)
    assert printed.startswith("exit 0\n"), printed
    assert f"{len(contracts())} kept, 0 broken" in printed


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("opal.errors", "opal.types"),  # upward
        ("opal.records", "opal.engine"),
        ("opal.decisions", "opal.report"),  # on one line
        ("opal.programs", "opal.kit"),
        ("opal.kit", "opal.errors"),  # the kit stands alone
        ("opal.backends.manual", "opal.backends.keep"),  # backends stand alone
    ],
)
def test_a_forbidden_import_breaks_a_contract(tree: Path, module: str, imported: str) -> None:
    plant(tree, module, f"import {imported}\n")
    printed = lint(tree)
    assert printed.startswith("exit 1\n"), printed
    assert f"{module} is not allowed to import {imported}" in printed


def test_a_module_outside_the_layers_breaks_a_contract(tree: Path) -> None:
    plant(tree, "opal.newcomer")
    printed = lint(tree)
    assert printed.startswith("exit 1\n"), printed
    assert "newcomer" in printed


def test_a_layer_in_parentheses_may_be_missing(tree: Path) -> None:
    for layer in ("hf", "accelerate", "lightning", "broker", "preflight"):
        (tree / "opal" / f"{layer}.py").unlink(missing_ok=True)
    assert lint(tree).startswith("exit 0\n")
