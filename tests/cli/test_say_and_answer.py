"""`opal say` and `opal answer` reach a run that goes on, and say so where none does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opal.records.commands import CommandReader
from opal.records.events import DecisionAnswered
from opal.records.run_folder import RunFolder

Opal = Callable[..., Any]
MakeRun = Callable[..., RunFolder]


def commands(folder: RunFolder) -> list[tuple[str, dict[str, Any]]]:
    return [(command.name, command.arguments) for command in CommandReader(folder.commands).read()]


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opal.cli.answer._PATIENCE", 0.0)


def test_a_note_is_appended(opal: Opal, make_run: MakeRun, waiting_story: Any) -> None:
    folder = make_run(*waiting_story)
    printed = opal("say", folder.root, " the last run diverged\nat 0.01 ")
    assert (printed.code, printed.out) == (0, "noted: the next decision's message has it\n")
    assert commands(folder) == [("note", {"text": "the last run diverged\nat 0.01"})]


@pytest.mark.parametrize("note", ["", " \n", "x" * 10_001])
def test_an_empty_or_endless_note_is_wrong_use(opal: Opal, make_run: MakeRun, waiting_story: Any, note: str) -> None:
    folder = make_run(*waiting_story)
    assert opal("say", folder.root, note).code == 2
    assert commands(folder) == []


def test_an_answer_takes_a_rationale_or_keeps(opal: Opal, make_run: MakeRun, waiting_story: Any) -> None:
    folder = make_run(*waiting_story)
    assert opal("answer", folder.root, "Muon").out == "answered decision 1\n"
    assert opal("answer", folder.root, "--keep").out == "answered decision 1: the programs stay\n"
    assert opal("answer", folder.root).code == 0
    assert commands(folder) == [
        ("answer", {"text": "Muon"}),
        ("answer", {"text": "", "keep": True}),
        ("answer", {"text": ""}),
    ]


def test_an_answer_without_a_question_is_exit_1(opal: Opal, make_run: MakeRun, waiting_story: Any) -> None:
    done = DecisionAnswered(time=2.0, update=10, decision=1, asked_at=10, seconds=1.0, edited=False, text="kept")
    folder = make_run(*waiting_story, done)
    printed = opal("answer", folder.root, "late")
    assert printed.code == 1
    assert printed.err == "opal: no decision is open: wait for the line that asks for one; nothing was answered\n"
    assert commands(folder) == []


def test_only_a_manual_run_takes_answers(opal: Opal, make_run: MakeRun, story: Any) -> None:
    folder = make_run(*story[:2])
    printed = opal("answer", folder.root, "why")
    assert printed.code == 2
    assert "asks 'playbook'" in printed.err
    assert commands(folder) == []


@pytest.mark.parametrize("command", [("say", "note"), ("answer", "why")])
def test_a_run_that_is_over_is_exit_1(
    opal: Opal, make_run: MakeRun, waiting_story: Any, dead_pid: int, command: tuple[str, str]
) -> None:
    ended = make_run(*waiting_story, name="ended", ended="2026-12-01T11:00:00+00:00", outcome="finished")
    killed = make_run(*waiting_story, name="killed", pid=dead_pid)
    for folder, said in ((ended, "has ended"), (killed, "been killed")):
        printed = opal(command[0], folder.root, command[1])
        assert (printed.code, printed.out) == (1, "")
        assert said in printed.err
        assert commands(folder) == []


@pytest.mark.parametrize("kind", ["empty", "foreign", "damaged", "missing"])
@pytest.mark.parametrize("command", ["say", "answer"])
def test_what_is_no_run_takes_no_commands(opal: Opal, bad_folders: dict[str, Path], kind: str, command: str) -> None:
    printed = opal(command, bad_folders[kind], "text")
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.count("\n") == 1
    assert not (bad_folders[kind] / "commands.jsonl").exists()
