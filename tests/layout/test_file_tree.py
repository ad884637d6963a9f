"""Folders and files have names that say what is in them, tests lie where they belong, texts name no machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EMPTY_NAMES = {"misc", "util", "utils", "helper", "helpers", "common"}
# Written so that they do not find themselves.
PLACES = re.compile(
    r"(^|[^A-Za-z0-9_.])/(work|root)/|/tmp/[s]cratch|pypi\.org/simple|python[h]osted|npm[j]s|deb\.[d]ebian",
    re.MULTILINE,
)


def files_of(root: Path) -> list[Path]:
    """The files that git tracks or would track, relative to the root; without git, every file."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
        return [Path(name) for name in listed.split("\0") if name and (root / name).is_file()]
    return [path.relative_to(root) for path in root.rglob("*") if path.is_file()]


def empty_names(root: Path) -> list[str]:
    """Paths of which a folder or the file is called what says nothing (`test_` and underscores aside)."""

    def says_nothing(part: str) -> bool:
        return part.split(".")[0].removeprefix("test_").strip("_").lower() in EMPTY_NAMES

    return sorted(path.as_posix() for path in files_of(root) if any(map(says_nothing, path.parts)))


def places_named(root: Path) -> list[str]:
    """Lines of text files with a path of the machine they were written on, or a host of a package registry."""
    found = []
    for path in sorted(files_of(root)):
        try:
            lines = (root / path).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{path.as_posix()}:{number}" for number, line in enumerate(lines, 1) if PLACES.search(line)]
    return found


def repeated_test_files(root: Path) -> list[str]:
    """Names of test files that occur more than once: a failure in one would be looked for in the other."""
    names = [path.name for path in sorted((root / "tests").rglob("test_*.py"))]
    return sorted({name for name in names if names.count(name) > 1})


def unmirrored_test_folders(root: Path) -> list[str]:
    """Folders of `tests` that stand for no part of `src/opal`, no top-level folder, and no kind of test run apart."""
    apart = {"layout", "distributed", "agents", "browser", "slow", "identity", "cases"}
    folders = [path for path in (root / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))]
    package = root / "src" / "opal"

    def mirrors(name: str) -> bool:
        return (package / name).is_dir() or (package / f"{name}.py").exists() or (root / name).is_dir()

    return sorted(path.name for path in folders if path.name not in apart and not mirrors(path.name))


def unmarked_slow_files(root: Path) -> list[str]:
    """Test files in `tests/slow` without `pytestmark = pytest.mark.slow`, which `make test` would run."""
    files = sorted((root / "tests" / "slow").rglob("test_*.py"))
    return [path.name for path in files if "\npytestmark = pytest.mark.slow\n" not in path.read_text()]


def plant(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    assert empty_names(ROOT) == []


def test_a_name_that_says_nothing_is_found(tmp_path: Path) -> None:
    for name in ("src/opal/utils/clock.py", "src/opal/_helpers.py", "tests/test_misc.py", "docs/common.md", "fine.py"):
        plant(tmp_path, name)
    assert empty_names(tmp_path) == [
        "docs/common.md",
        "src/opal/_helpers.py",
        "src/opal/utils/clock.py",
        "tests/test_misc.py",
    ]


def test_files_that_git_ignores_are_not_looked_at(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    plant(tmp_path, ".gitignore", "built/\n")
    plant(tmp_path, "built/utils.py")
    plant(tmp_path, "kept/utils.py")
    assert empty_names(tmp_path) == ["kept/utils.py"]


def test_no_text_names_a_place_of_one_machine() -> None:
    assert places_named(ROOT) == []


def test_a_place_of_one_machine_is_found(tmp_path: Path) -> None:
    texts = {
        "a.md": "see\n/wo" + "rk/main for more",
        "b.py": 'HOME = "/ro' + 'ot/x"',
        "c.txt": "--index-url https://py" + "pi.org/simple",
        "d.txt": "files.python" + "hosted.org and registry.npm" + "js.org",
        "e.txt": "http://deb." + "debian.org",
        "f.txt": "/tmp/" + "scratch/x",
        "fine.md": "a/work/b, ./work/c, ../root/d, /workers/e, network/root/f",
    }
    for name, text in texts.items():
        plant(tmp_path, name, text)
    (tmp_path / "picture.png").write_bytes(b"\x89\xff /ro" + b"ot/x")
    assert places_named(tmp_path) == ["a.md:2", "b.py:1", "c.txt:1", "d.txt:1", "e.txt:1", "f.txt:1"]


def test_each_test_file_has_a_name_of_its_own() -> None:
    assert repeated_test_files(ROOT) == []


def test_a_repeated_name_of_a_test_file_is_found(tmp_path: Path) -> None:
    for name in ("tests/kit/test_rules.py", "tests/checks/test_rules.py", "tests/kit/test_carry.py"):
        plant(tmp_path, name)
    assert repeated_test_files(tmp_path) == ["test_rules.py"]


def test_test_folders_mirror_the_source() -> None:
    assert unmirrored_test_folders(ROOT) == []


def test_a_test_folder_that_mirrors_nothing_is_found(tmp_path: Path) -> None:
    for name in ("src/opal/kit/rules.py", "src/opal/hf.py", "examples/gpt.py"):
        plant(tmp_path, name)
    for folder in ("kit", "hf", "examples", "layout", "slow", "unit"):
        plant(tmp_path, f"tests/{folder}/test_{folder}.py")
    assert unmirrored_test_folders(tmp_path) == ["unit"]


def test_files_among_the_slow_tests_are_marked_slow() -> None:
    assert unmarked_slow_files(ROOT) == []


def test_an_unmarked_file_among_the_slow_tests_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "tests/slow/issue_02/test_marked.py", "import pytest\n\npytestmark = pytest.mark.slow\n")
    plant(tmp_path, "tests/slow/issue_02/test_unmarked.py", "import pytest\n")
    assert unmarked_slow_files(tmp_path) == ["test_unmarked.py"]
