"""Which files are a program, and which are refused by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from opal.errors import ProgramFileError
from opal.programs.contract import MAX_BYTES, program_from_texts, read_program
from opal.programs.starting import starting_program

ANALYSIS = "def analyze(obs, memory):\n    return None\n"


def path_of(name: str) -> str:
    """`a__b` is `a/b.py`, `a__init` is `a/__init__.py`."""
    return name.replace("__", "/").replace("/init", "/__init__") + ".py"


def workspace(path: Path, **files: str) -> Path:
    """A workspace with these files; `__` in a name is a folder."""
    texts = {"updater": "x = 1\n", "analysis": ANALYSIS, **files}
    for name, text in texts.items():
        file = path / path_of(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return path


def test_a_program_is_its_two_files_and_what_they_import(tmp_path: Path) -> None:
    files = read_program(
        workspace(
            tmp_path,
            updater="import math\nimport shared\nfrom parts import one\n\ndef build():\n    if 1:\n        import late\n",
            analysis="try:\n    import parts.two as two\nexcept ImportError:\n    pass\nimport shared\n",
            shared="",
            late="from parts.deep.three import x\n",
            parts__one="from . import two\nfrom .deep import three\n",
            parts__two="",
            parts__deep__three="from ..two import *\nfrom ...nothing import x\n",
            unused="",
            check="",
        )
    )
    one, two, three = "parts/one.py", "parts/two.py", "parts/deep/three.py"
    assert files.updater == {"updater.py", "shared.py", one, two, three, "late.py"}
    assert files.analysis == {"analysis.py", two, "shared.py"}
    assert set(files.texts) == files.updater | files.analysis


def test_a_packages_init_belongs_to_it(tmp_path: Path) -> None:
    files = read_program(workspace(tmp_path, updater="import a.b.c\n", a__init="import z\n", a__b__c="", z=""))
    assert files.updater == {"updater.py", "a/__init__.py", "a/b/c.py", "z.py"}


def test_a_program_from_texts_is_the_one_that_was_read(tmp_path: Path) -> None:
    read = read_program(workspace(tmp_path, updater="import a.b as c\nfrom d import e\n", a__b="", d__e="", other=""))
    assert program_from_texts(read.texts) == read


def test_each_side_has_a_digest_of_its_own(tmp_path: Path) -> None:
    base = read_program(workspace(tmp_path, updater="import s\n", s="x = 1\n"))
    other = read_program(workspace(tmp_path, s="x = 2\n"))
    assert base.same_updater(base)
    other = program_from_texts({**base.texts, "s.py": "x = 2\n"})
    assert not other.same_updater(base)
    assert other.same_analysis(base)
    assert not other.same(base)


@pytest.mark.parametrize("name", ["random", "torch", "numpy", "os", "opal"])
@pytest.mark.parametrize("package", [False, True])
def test_a_helper_that_hides_a_module_is_refused_by_name(tmp_path: Path, name: str, package: bool) -> None:
    file = f"{name}__nn" if package else name
    workspace(tmp_path, updater=f"import {name}{'.nn' if package else ''}\n", **{file: "x = 1\n"})
    with pytest.raises(ProgramFileError, match=f"hides the module '{name}'") as caught:
        read_program(tmp_path)
    assert caught.value.where == path_of(file)


def test_a_file_with_such_a_name_that_nothing_imports_is_no_matter(tmp_path: Path) -> None:
    assert "random.py" not in read_program(workspace(tmp_path, random="")).texts


def link(path: Path) -> None:
    path.with_name("real.txt").write_text("x = 1\n")
    path.symlink_to(path.with_name("real.txt"))


def too_large(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_BYTES + 1))


WRONG = {
    "a link": (link, "is a link"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "is a link"),
    "a pipe": (lambda path: os.mkfifo(path), "is no regular file"),
    "a folder": (lambda path: path.mkdir(), "is no regular file"),
    "too large": (too_large, "is larger than 1 MiB"),
    "not UTF-8": (lambda path: path.write_bytes(b"# \xff\n"), "is not UTF-8 (byte 2)"),
    "a null byte": (lambda path: path.write_bytes(b"x = 1\0"), "holds a null byte"),
    "missing": (lambda path: None, "is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["updater.py", "analysis.py", "helper.py", "parts/helper.py"])
@pytest.mark.parametrize("kind", WRONG)
def test_a_file_of_a_wrong_kind_is_refused_by_name(tmp_path: Path, name: str, kind: str) -> None:
    make, says = WRONG[kind]
    if name.endswith("helper.py") and kind == "missing":
        return  # an import of something else
    workspace(tmp_path, updater="import helper\nimport parts.helper\n", parts__other="")
    path = tmp_path / name
    path.unlink(missing_ok=True)
    make(path)
    with pytest.raises(ProgramFileError) as caught:
        read_program(tmp_path)
    assert caught.value.where == name
    assert says in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_file_of_exactly_the_limit_is_a_program(tmp_path: Path) -> None:
    workspace(tmp_path)
    (tmp_path / "updater.py").write_bytes(b"#" * MAX_BYTES)
    assert len(read_program(tmp_path).texts["updater.py"]) == MAX_BYTES


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "helper.py").write_text("x = 1\n")
    inside = workspace(tmp_path / "inside", updater="import parts.helper\n")
    (inside / "parts").symlink_to(outside)
    with pytest.raises(ProgramFileError, match="lies behind a link") as caught:
        read_program(inside)
    assert caught.value.where == "parts/helper.py"


def test_64_files_are_a_program_and_65_are_not(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(62)]
    workspace(tmp_path, updater="".join(f"import {name}\n" for name in names), **dict.fromkeys(names, ""))
    assert len(read_program(tmp_path).texts) == 64
    (tmp_path / "m0.py").write_text("import one_more\n")
    (tmp_path / "one_more.py").write_text("")
    with pytest.raises(ProgramFileError, match="more than 64 files") as caught:
        read_program(tmp_path)
    assert caught.value.where


def test_no_handle_is_left_open_by_refusals(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("counts the handles of Linux")
    workspace(tmp_path)
    (tmp_path / "updater.py").unlink()
    (tmp_path / "updater.py").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(ProgramFileError):
            read_program(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_does_not_parse_is_a_program_that_imports_nothing(tmp_path: Path) -> None:
    files = read_program(workspace(tmp_path, updater="import helper\ndef (", helper=""))
    assert files.updater == {"updater.py"}


def test_the_starting_program_has_the_interval_of_the_run() -> None:
    files = starting_program(37)
    assert "\nEVERY = 37\n" in files.texts["analysis.py"]
    assert files.updater == {"updater.py"}
