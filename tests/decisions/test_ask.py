"""A question goes to a backend, and what it left in the workspace is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from opal.decisions.ask import AgentDesk, Question, write_program
from opal.errors import BackendUnavailableError
from opal.programs.starting import starting_program
from opal.records.log import warn
from opal.records.run_folder import RunFolder, new_run_folder
from opal.records.writer import RecordWriter
from opal.testing.conformance import _run
from opal.testing.scripted import Edit, ScriptedBackend
from opal.types import DecisionRequest, Reason

RUNNING = starting_program(10)


def question(number: int = 1, *, restore: bool = False) -> Question:
    request = DecisionRequest(
        number=number, update=10, total_updates=60, epoch=None, waits=True, reasons=(Reason(kind="scheduled"),),
        first=True, last=False, next_update=20, decisions_left=3, running_version="v000",
    )  # fmt: skip
    return Question(request=request, losses=[(1, 2.0)], reports=[], running=RUNNING, restore_workspace=restore)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = new_run_folder(str(tmp_path / "run"))
    write_program(made.workspace, RUNNING.texts)
    return made


def ask(folder: RunFolder, edit: Edit, **options: Any) -> Any:
    backend = ScriptedBackend({1: edit})
    backend.setup(_run(folder, {}))
    writer = RecordWriter(folder, warn=warn)
    writer.start()
    desk = AgentDesk(backend=backend, folder=folder, writer=writer, system="system", references=[])
    answered = desk.ask(question(**options))
    writer.close(10)
    assert backend.turns[0].message == (folder.decision(1) / "message.txt").read_text()
    return answered


def test_what_was_left_in_the_workspace_is_the_program(folder: RunFolder) -> None:
    answered = ask(folder, Edit(files={"updater.py": "import part\n", "part.py": "x = 1\n"}, text="why"))
    assert answered.answer.text == "why"
    assert answered.files.texts["part.py"] == "x = 1\n"
    assert answered.files.same_analysis(RUNNING)
    assert (answered.refused, answered.problem) == (None, "")
    assert answered.seconds >= 0
    assert (folder.inbox / "decision_001.json").is_file()


def test_keeping_leaves_the_files_unread(folder: RunFolder) -> None:
    answered = ask(folder, Edit(files={"updater.py": None}, keeps=True))
    assert (answered.files, answered.refused) == (None, None)


def test_a_file_that_breaks_a_rule_is_part_of_the_answer(folder: RunFolder) -> None:
    answered = ask(folder, Edit(files={"updater.py": None}))
    assert answered.files is None
    assert str(answered.refused) == "updater.py: is missing; a program needs this file"


@pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(3), BackendUnavailableError("no login")])
def test_whatever_a_backend_raises_is_no_answer(folder: RunFolder, error: BaseException) -> None:
    answered = ask(folder, Edit(files={"updater.py": "x"}, error=error))
    assert (answered.answer, answered.files, answered.refused) == (None, None, None)
    assert str(error) in answered.problem


def test_the_workspace_is_put_back_before_a_question_where_it_differs(folder: RunFolder, tmp_path: Path) -> None:
    (folder.workspace / "updater.py").unlink()
    (folder.workspace / "updater.py").symlink_to(tmp_path / "elsewhere")
    (folder.workspace / "analysis.py").unlink()
    os.mkfifo(folder.workspace / "analysis.py")
    answered = ask(folder, Edit(), restore=True)
    assert answered.files.same(RUNNING)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_where_a_file_belongs_is_set_aside(folder: RunFolder) -> None:
    (folder.workspace / "updater.py").unlink()
    (folder.workspace / "updater.py").mkdir()
    (folder.workspace / "updater.py" / "kept.txt").write_text("theirs")
    write_program(folder.workspace, RUNNING.texts)
    assert (folder.workspace / "updater.py").read_text() == RUNNING.texts["updater.py"]
    (aside,) = folder.workspace.glob("updater.py.removed-*")
    assert (aside / "kept.txt").read_text() == "theirs"
