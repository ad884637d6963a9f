"""A question goes to the agent, and what it left is read. Runs on the worker thread; training may go on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opal.backends.base import Backend
from opal.errors import BackendFailedError, BackendUnavailableError, ProgramFileError
from opal.programs.contract import ProgramFiles, read_program
from opal.prompts.decision_message import render_decision_message
from opal.prompts.inbox import write_inbox
from opal.records.log import warn
from opal.records.run_folder import RunFolder
from opal.records.writer import RecordWriter
from opal.types import AgentAnswer, DecisionRequest, Report, Turn

_FLUSH_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Question:
    """A decision, with everything that its message and its inbox file are made of."""

    request: DecisionRequest
    losses: Sequence[tuple[int, float]]
    reports: Sequence[Report]
    running: ProgramFiles
    restore_workspace: bool
    """Whether the workspace differs from the running program by something that was refused or reverted."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What came of a question. Without `answer` there was none, and `problem` says why.

    `files` is the program that lies in the workspace; None where it breaks a rule, which `refused` says, or where the
    programs stay.
    """

    question: Question
    seconds: float
    answer: AgentAnswer | None
    files: ProgramFiles | None = None
    refused: ProgramFileError | None = None
    problem: str = ""


class AgentDesk:
    """Asks one backend about one workspace."""

    def __init__(
        self, *, backend: Backend, folder: RunFolder, writer: RecordWriter, system: str, references: Sequence[str]
    ) -> None:
        self._backend = backend
        self._folder = folder
        self._writer = writer
        self._system = system
        self._references = references

    def ask(self, question: Question) -> Answered:
        """Ask, and read what was left. Never raises."""
        began = time.monotonic()
        try:
            answer = self._turn(question)
        except (BackendUnavailableError, BackendFailedError) as error:
            return Answered(question=question, seconds=time.monotonic() - began, answer=None, problem=str(error))
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
            return Answered(question=question, seconds=time.monotonic() - began, answer=None, problem=problem)
        seconds = time.monotonic() - began
        if answer.keeps:
            return Answered(question=question, seconds=seconds, answer=answer)
        try:
            files = read_program(self._folder.workspace)
        except ProgramFileError as error:
            return Answered(question=question, seconds=seconds, answer=answer, refused=error)
        except OSError as error:
            refused = ProgramFileError(f"the workspace cannot be read ({error.strerror})")
            return Answered(question=question, seconds=seconds, answer=answer, refused=refused)
        return Answered(question=question, seconds=seconds, answer=answer, files=files)

    def _turn(self, question: Question) -> AgentAnswer:
        request, folder = question.request, self._folder
        message = render_decision_message(request, workspace_files=self._references)
        try:
            if question.restore_workspace:
                write_program(folder.workspace, question.running.texts)
            write_inbox(folder, request, question.losses, question.reports)
        except OSError as error:
            warn(
                f"decision {request.number}: the workspace cannot be written ({error}); the agent is asked all the same"
            )
        self._writer.text(folder.decision(request.number) / "message.txt", message)
        self._writer.flush(_FLUSH_SECONDS)
        return self._backend.decide(
            Turn(
                decision=request.number,
                round=0,
                update=request.update,
                message=message,
                system=self._system,
                folder=str(folder.decision(request.number)),
            )
        )


def write_program(workspace: Path, texts: Mapping[str, str]) -> None:
    """Put a program's files into the workspace where they differ from what lies there; links and pipes are removed."""
    for name, text in texts.items():
        path = workspace / name
        if path.is_symlink() or (path.exists() and not path.is_file()):
            _remove(path)
        if not path.exists() or path.read_bytes() != text.encode():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.removed-{time.time_ns()}"))
    else:
        path.unlink()
