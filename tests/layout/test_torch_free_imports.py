"""What works without torch imports without torch, and `opal` shows five names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import opal

SRC = Path(__file__).resolve().parents[2] / "src"
MAY_NEED_TORCH = (
    "opal.programs",
    "opal.kit",
    "opal.checks",
    "opal.distributed",
    "opal.engine",
    "opal.api",
    "opal.demo",
    "opal.testing",
    "opal.cli.demo",
)
# Runs in a process of its own: imports every name of a JSON list with torch (and numpy, which comes with it) made
# unimportable, and prints those that fail. A module that only runs as a program is imported like any other.
IMPORT_ALL = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
sys.modules["torch"] = None
sys.modules["numpy"] = None
failures = {}
for name in json.loads(sys.argv[2]):
    try:
        importlib.import_module(name)
    except BaseException as error:
        failures[name] = f"{type(error).__name__}: {error}"
print(json.dumps(failures))
"""


def module_names(src: Path) -> list[str]:
    """The dotted names of all modules of the package `opal` under `src`, `__main__` left out."""
    names = []
    for path in sorted((src / "opal").rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def may_need_torch(name: str) -> bool:
    """Whether the module, or a package above it, is one of those that are used only in training."""
    return any(name == top or name.startswith(top + ".") for top in MAY_NEED_TORCH)


def imports_that_fail_without_torch(src: Path) -> dict[str, str]:
    """The modules that should import without torch and do not, with what they raised."""
    names = [name for name in module_names(src) if not may_need_torch(name)]
    command = [sys.executable, "-c", IMPORT_ALL, str(src), json.dumps(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    failures: dict[str, str] = json.loads(done.stdout)
    return failures


def test_modules_import_without_torch() -> None:
    assert imports_that_fail_without_torch(SRC) == {}


def test_an_import_of_torch_is_found(tmp_path: Path) -> None:
    texts = {
        "__init__.py": "",
        "fine.py": "import json\n",
        "lazy.py": "def run():\n    import torch\n",
        "eager.py": "import torch\n",
        "through.py": "from opal import api\n",
        "api.py": "from torch import nn\n",
        "cli/__init__.py": "",
        "cli/demo.py": "import torch\n",
        "cli/show.py": "import numpy\n",
    }
    (tmp_path / "opal" / "cli").mkdir(parents=True)
    for name, text in texts.items():
        (tmp_path / "opal" / name).write_text(text)
    failures = imports_that_fail_without_torch(tmp_path)
    assert sorted(failures) == ["opal.cli.show", "opal.eager", "opal.through"]
    assert all(message.startswith("ModuleNotFoundError: import of ") for message in failures.values())


def test_import_opal_loads_neither_torch_nor_a_dependency() -> None:
    wanted = ("torch", "numpy", "rich", "typer", "msgspec", "jinja2", "plotly")
    code = f"import sys, opal; print(sorted(set({wanted!r}) & set(sys.modules)))"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SRC)!r}); {code}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_public_names_are_exactly_those_of_the_interface() -> None:
    names = ["AgentOptimizer", "__version__", "final_program", "replay", "wrap"]
    assert sorted(opal.__all__) == names
    assert sorted(dir(opal)) == names
