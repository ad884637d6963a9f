"""Versions become modules that share nothing, look like ordinary ones, and leave nothing behind."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from engine.edited_run import Loop, edit, sgd_program, train, wrapped
from opal.programs.contract import program_from_texts
from opal.programs.failure import describe_failure
from opal.programs.load import ProgramModules

ANALYSIS = "def analyze(obs, memory):\n    return None\n"


def path_of(name: str) -> str:
    """`a__b` is `a/b.py`, `a__init` is `a/__init__.py`."""
    return name.replace("__", "/").replace("/init", "/__init__") + ".py"


def load(version: str = "v001", **files: str) -> ProgramModules:
    texts = {path_of(name): text for name, text in {"analysis": ANALYSIS, **files}.items()}
    return ProgramModules(version, program_from_texts(texts))


def left() -> list[str]:
    return [name for name in sys.modules if name.startswith("_opal_program_")]


def test_two_versions_share_no_state_of_modules() -> None:
    files = {"updater": "import helper\nfrom helper import LIST\n", "helper": "LIST = []\n"}
    one, two = load("v001", **files), load("v002", **files)
    first, second = one.load("updater"), two.load("updater")
    first.LIST.append(1)
    assert first.helper.LIST == [1]
    assert second.helper.LIST == second.LIST == []
    assert first.helper is not second.helper


FORMS: dict[str, dict[str, str]] = {
    "import a": {"updater": "import a\nX = a.X\n", "a": "X = 7\n"},
    "import a as b": {"updater": "import a as b\nX = b.X\n", "a": "X = 7\n"},
    "import a.b": {"updater": "import a.b\nX = a.b.X\n", "a__b": "X = 7\n"},
    "import a.b as c": {"updater": "import a.b as c\nX = c.X\n", "a__init": "", "a__b": "X = 7\n"},
    "from a import b": {"updater": "from a import b\nX = b.X\n", "a__b": "X = 7\n"},
    "from a import b as c": {"updater": "from a import b as c\nX = c.X\n", "a__init": "", "a__b": "X = 7\n"},
    "from a.b import X": {"updater": "from a.b import X\n", "a__b": "X = 7\n"},
    "from a import *": {"updater": "from a import *\n", "a": "X = 7\n"},
    "from . import a": {"updater": "from . import a\nX = a.X\n", "a": "X = 7\n"},
    "from .a import X": {"updater": "from .a import X\n", "a": "X = 7\n"},
    "from .. import": {"updater": "import a.b\nX = a.b.X\n", "a__b": "from ..c import X\n", "c": "X = 7\n"},
    "several": {"updater": "import math, a.b, sys, c\nX = a.b.X + c.X + int(math.pi) - 3\n", "a__b": "X = 3\n", "c": "X = 4\n"},
    "in a function": {"updater": "def f():\n    import a\n    return a.X\nX = f()\n", "a": "X = 7\n"},
    "in a try": {
        "updater": "try:\n    import absent_x\nexcept ImportError:\n    import a\nelse:\n    pass\nX = a.X\n", "a": "X = 7\n"
    },
    "in a match": {"updater": "match 1:\n    case 1:\n        from a import X\n", "a": "X = 7\n"},
    "in a class": {"updater": "class C:\n    from a import X\nX = C.X\n", "a": "X = 7\n"},
    "with future": {"updater": "'''Text.'''\nfrom __future__ import annotations\nimport a\nX = a.X\n", "a": "X = 7\n"},
    "in a circle": {"updater": "import a\nX = a.f()\n", "a": "import b\ndef f():\n    return b.X\n", "b": "import a\nX = 7\n"},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_import_finds_the_file_in_the_workspace(form: str) -> None:
    modules = load(**FORMS[form])
    assert modules.load("updater").X == 7
    names = [name for name in ("a", "b", "c", "a.b") if name in sys.modules]
    assert names == []
    modules.unload()
    assert [name for name in left() if modules.package in name] == []


def test_nothing_is_on_the_path_and_what_is_not_there_says_its_own_name() -> None:
    path = list(sys.path)
    modules = load(updater="import absent_x\n", other="x = 1\n")
    with pytest.raises(ModuleNotFoundError, match="No module named 'absent_x'"):
        modules.load("updater")
    assert sys.path == path
    with pytest.raises(ModuleNotFoundError):
        __import__("updater")


def test_inspect_pickle_and_tracebacks_show_the_source() -> None:
    text = "class Kept:\n    x = 1\n\n    def fail(self):\n        return 1 / 0  # here\n"
    modules = load("v012", updater="from parts.kept import Kept\n", parts__kept=text)
    kind: Any = modules.load("updater").Kept
    assert inspect.getsource(kind) == text
    assert type(pickle.loads(pickle.dumps(kind()))) is kind
    with pytest.raises(ZeroDivisionError) as caught:
        kind().fail()
    lines = "".join(traceback.format_exception(caught.value))
    assert 'File "v012/parts/kept.py", line 5, in fail' in lines
    assert "return 1 / 0  # here" in lines


def test_a_failure_is_described_by_file_line_and_its_part_of_the_traceback() -> None:
    modules = load(
        "v003", updater="import helper\ndef build():\n    helper.deep()\n", helper="def deep():\n    {}['k']\n"
    )
    with pytest.raises(KeyError) as caught:
        modules.load("updater").build()
    failure = describe_failure(
        caught.value, version="v004", version_in_traceback="v003", stage="build", update=9, undone="not",
        goes_on_with="v000",
    )  # fmt: skip
    assert (failure.file, failure.line, failure.error, failure.message) == ("helper.py", 2, "KeyError", "'k'")
    assert failure.traceback.count("File ") == 2
    assert "v003/updater.py" in failure.traceback
    assert __file__ not in failure.traceback


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_a_text_and_one_with_too_much_are_described() -> None:
    details: Any = {
        "version": "v001", "version_in_traceback": "v001", "stage": "build", "update": 1, "undone": "not",
        "goes_on_with": "v000",
    }  # fmt: skip
    assert describe_failure(Unspeakable(), **details).message == "(its text cannot be shown)"
    long = describe_failure(ValueError("x" * 100_000), **details)
    assert len(long.message) == 600
    assert len(long.traceback) < 4100


def test_modules_go_with_their_owner() -> None:
    modules = load(updater="import a\n", a="")
    modules.load("updater")
    package = modules.package
    assert [name for name in left() if name.startswith(package)]
    del modules
    gc.collect()
    assert [name for name in left() if name.startswith(package)] == []


def test_a_run_leaves_no_modules_of_versions_that_are_gone(tmp_path: Path) -> None:
    gc.collect()
    before = set(left())
    kept: list[str] = []

    def look(loop: Loop, update: int) -> None:
        kept[:] = sorted({name.rpartition(".")[0].split("_")[-1] for name in set(left()) - before if "." in name})

    edits = {
        1: edit(sgd_program()),
        2: edit("x = 1 / 0\n", analysis=ANALYSIS),
        3: edit(sgd_program() + "# changed\n", analysis=ANALYSIS),
    }
    run = train(wrapped(tmp_path, edits, trial_steps=15), before=look)
    assert run.record.final_version == "v003"
    gc.collect()
    look(run, 0)
    assert kept == ["v003"]
    del run
    gc.collect()
    assert set(left()) - before == set()
