"""`scripts/test_slow.py`: parts, what is remembered, the table, the exit status."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test_slow.py"
MARKED = "import pytest\npytestmark = pytest.mark.slow\n"
# Each run of the test adds a line to a file that git ignores.
COUNTED = MARKED + "def test_it():\n    with open('runs.txt', 'a') as file:\n        file.write('x')\n"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["slow_script"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A committed tree with two parts, of which the second fails."""
    texts = {
        "tests/slow/issue_02/test_counted.py": COUNTED,
        "tests/slow/issue_03/test_failing.py": MARKED + "def test_it():\n    assert 1 == 2\n",
        "tests/slow/issue_04/test_unmarked.py": "def test_it():\n    pass\n",
        ".gitignore": ".test_slow/\nruns.txt\n__pycache__/\n.pytest_cache/\n",
        "pytest.ini": "[pytest]\nmarkers = slow\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    who = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["git", "add", "-A"], ["git", "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(command, cwd=root, check=True, env=dict(os.environ, **who))


def runs(root: Path) -> int:
    return len((root / "runs.txt").read_text())


@pytest.mark.long
def test_a_part_that_passed_is_not_run_again_on_the_same_commit(
    script: ModuleType, repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["2", "--workers", "0"], root=repository) == 0
    assert script.main(["2", "--workers", "0"], root=repository) == 0
    assert runs(repository) == 1
    assert "passed before on this commit" in capfd.readouterr().out
    assert script.main(["2", "--workers", "0", "--force"], root=repository) == 0
    assert runs(repository) == 2
    commit(repository)
    assert script.main(["2", "--workers", "0"], root=repository) == 0
    assert runs(repository) == 3


@pytest.mark.long
def test_nothing_is_remembered_in_a_changed_tree(script: ModuleType, repository: Path) -> None:
    (repository / "new.py").touch()
    for _ in range(2):
        assert script.main(["2", "--workers", "0"], root=repository) == 0
    assert runs(repository) == 2


@pytest.mark.long
def test_a_failing_part_fails_and_is_run_again(
    script: ModuleType, repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert script.main(["3", "--workers", "0"], root=repository) == 1
        last = capfd.readouterr().out.strip().splitlines()
        assert last[-2].split()[:4] == ["tests/slow/issue_03/test_failing.py", "0", "1", "0"]
        assert last[-2].endswith("FAILED")
        assert last[-1].split()[:4] == ["all", "0", "1", "0"]


def test_a_file_without_slow_tests_fails(script: ModuleType, repository: Path) -> None:
    assert script.main(["4", "--workers", "0"], root=repository) == 1


def test_a_part_that_does_not_exist_is_refused_with_those_that_do(script: ModuleType, repository: Path) -> None:
    with pytest.raises(SystemExit, match=r"no slow part 9 .*issue_02, issue_03, issue_04"):
        script.main(["9"], root=repository)
