"""`opal` itself: help, versions, exit status, and what it does not load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opal as package
from opal.cli.commands import COMMANDS

Opal = Callable[..., Any]
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(Path(package.__file__).parents[1]))
# Runs `opal ARGUMENTS` and then prints which of these packages were loaded.
LOADED = """
import sys
from opal.cli.main import run
sys.argv = ["opal", *sys.argv[1:]]
try:
    run()
except SystemExit as exit_:
    assert not exit_.code, exit_.code
print("loaded", sorted({"torch", "numpy", "typer", "plotly", "jinja2"} & set(sys.modules)))
"""


def loaded_by(*arguments: str) -> str:
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_the_commands_are_exactly_these() -> None:
    assert list(COMMANDS) == ["demo", "show", "watch", "report", "say", "answer", "estimate"]


def test_help_lists_every_command_and_the_exit_status(opal: Opal) -> None:
    printed = opal("--help")
    assert printed.code == 0
    assert printed.err == ""
    for name, (_, _, line) in COMMANDS.items():
        assert any(text.split() == [name, *line.split()] for text in printed.out.splitlines()), name
    assert "Exit status: 0 fine, 1 found wanting, 2 wrong use" in printed.out


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_every_command_has_help_with_an_example(opal: Opal, name: str) -> None:
    printed = opal(name, "--help")
    assert printed.code == 0
    assert f"Example:  opal {name}" in printed.out
    assert "--help" in printed.out


def test_the_version_is_that_of_the_package(opal: Opal) -> None:
    printed = opal("--version")
    assert (printed.code, printed.out) == (0, f"opal {package.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["show", "--nonsense"],
        ["show", "a", "b"],
        ["say"],
        ["say", "only-one"],
        ["answer"],
        ["watch", "--timeout", "-1"],
        ["watch", "--interval", "0"],
        ["watch", "--timeout", "soon"],
        ["estimate"],
        ["estimate", "--total-steps", "1"],
    ],
)
def test_wrong_use_is_exit_2_and_no_traceback(opal: Opal, arguments: list[str]) -> None:
    printed = opal(*arguments)
    assert printed.code == 2
    assert printed.out == ""
    assert printed.err
    assert "Traceback" not in printed.err


def test_without_arguments_the_help_is_shown(opal: Opal) -> None:
    printed = opal()
    assert "Commands:" in printed.out + printed.err


def test_show_loads_neither_torch_nor_the_command_line_library(make_run: Callable[..., Any], story: Any) -> None:
    assert loaded_by("show", str(make_run(*story).root)) == "loaded []"


def test_help_and_other_commands_load_no_torch(make_run: Callable[..., Any], story: Any) -> None:
    assert loaded_by("--help") == "loaded ['typer']"
    assert loaded_by("watch", str(make_run(*story).root)) == "loaded ['typer']"


def test_a_command_whose_package_is_missing_is_one_sentence(opal: Opal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "demo", ("opal.cli.no_such_file", "demo", "x"))
    printed = opal("demo")
    assert printed.code == 2
    assert printed.err.startswith("opal: `opal demo` cannot be loaded: No module named")


def test_a_closed_pipe_is_no_traceback(make_run: Callable[..., Any], story: Any) -> None:
    folder = make_run(*story)
    command = [sys.executable, "-m", "opal.cli.main", "show", str(folder.root), "--json"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
