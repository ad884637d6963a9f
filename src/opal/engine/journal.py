"""What happens is written down, said to the person, and kept for the agent's next message: one call for each."""

from __future__ import annotations

import time
import traceback
from typing import Any

from opal.decisions.untold import Untold
from opal.records import events
from opal.records.log import defect, inform, warn
from opal.records.run_folder import RunFolder
from opal.records.writer import RecordWriter
from opal.types import Failure, ProgramAudit


class Progress:
    """How far the run is: `update` are made, `due` is the one before which something was due last."""

    def __init__(self, total_steps: int) -> None:
        self.total_steps = total_steps
        self.update = 0
        self.due = 0


class Journal:
    """The engine's side of records, log lines and the agent's next message."""

    def __init__(self, folder: RunFolder, writer: RecordWriter, untold: Untold, progress: Progress) -> None:
        self.folder = folder
        self.writer = writer
        self.untold = untold
        self._progress = progress
        self._warned: set[str] = set()

    def record(self, kind: type[events.Event], *, at: int | None = None, **fields: Any) -> None:
        """An event that happens now, at the update that is made last or is about to be made, or `at` another."""
        update = max(self._progress.update, self._progress.due) if at is None else at
        self.writer.event(kind(time=time.time(), update=update, **fields))

    def warn(self, text: str) -> None:
        """A warning to the person, recorded."""
        warn(text)
        self.record(events.Warned, text=text)

    def warn_once(self, text: str) -> None:
        """A warning that is not repeated."""
        if text not in self._warned:
            self._warned.add(text)
            self.warn(text)

    def program_failed(self, failure: Failure) -> None:
        """A running updater failed; what goes on is decided."""
        place = _place(failure)
        undone = "undone exactly" if failure.undone == "exactly" else "not undone"
        warn(
            f"update {failure.update}: program {failure.version} failed {place} ({failure.error}: "
            f"{_line(failure.message)}); {undone}, {failure.goes_on_with} goes on"
        )
        self.untold.failures.append(failure)
        self.record(
            events.ProgramFailed,
            at=failure.update,
            version=failure.version,
            stage=failure.stage,
            error=failure.error,
            message=failure.message,
            file=failure.file,
            line=failure.line,
            undone=failure.undone,
            goes_on_with=failure.goes_on_with,
        )
        self.record(
            events.ProgramReverted,
            at=failure.update,
            version=failure.version,
            goes_on_with=failure.goes_on_with,
            why=f"{failure.error} {place}",
        )

    def candidate_refused(self, decision: int, failure: Failure) -> None:
        """A candidate did not become a program."""
        sentence = refusal(failure)
        warn(f"decision {decision}: {sentence}")
        self.untold.failures.append(failure)
        self.record(
            events.ProgramRefused,
            decision=decision,
            version=failure.version,
            stage=failure.stage,
            sentence=sentence,
            undone=failure.undone,
        )

    def analysis_failed(self, failure: Failure) -> None:
        """The analysis failed and is not called again until it is edited."""
        warn(f"update {failure.update}: the analysis of {failure.version} failed {_place(failure)} ({failure.error}: "
             f"{_line(failure.message)}); it is not called again until it is edited")  # fmt: skip
        self.untold.failures.append(failure)
        self.record(
            events.AnalysisFailed,
            version=failure.version,
            error=failure.error,
            message=failure.message,
            file=failure.file,
            line=failure.line,
        )

    def audited(self, audit: ProgramAudit) -> None:
        """One update of a program was counted."""
        self.untold.audits.append(audit)
        self.record(
            events.ProgramAudited,
            version=audit.version,
            operator_calls=audit.operator_calls,
            host_reads=audit.host_reads,
            host_read_places=audit.host_read_places,
        )

    def defect(self, error: Exception) -> None:
        """A mistake of OPAL's own: said with its traceback, so that it can be reported."""
        defect(f"a mistake in OPAL ended its checks and decisions; training goes on ({type(error).__name__}: {error})")
        self.record(events.Warned, text="".join(traceback.format_exception(error))[-4000:])

    def inform(self, text: str) -> None:
        """A line to the person, not recorded."""
        inform(text)


def refusal(failure: Failure) -> str:
    """Why a candidate was refused, in a sentence with file and line."""
    doing = {"files": "its files break a rule", "import": "importing it failed", "build": "build() failed",
             "analysis": "its analysis failed"}.get(failure.stage, "it failed")  # fmt: skip
    undone = "; its traces are undone exactly" if failure.undone == "exactly" else ""
    if failure.undone == "not":
        undone = "; what it changed before is not undone"
    return (
        f"program {failure.version} was refused, {doing} {_place(failure)} ({failure.error}: {_line(failure.message)})"
        f"{undone}; {failure.goes_on_with} goes on"
    )


def _place(failure: Failure) -> str:
    if failure.file is None:
        return "outside its files"
    return f"at {failure.file}:{failure.line}" if failure.line else f"in {failure.file}"


def _line(text: str) -> str:
    """The first line, at most 200 characters."""
    first = text.strip().split("\n")[0]
    return first if len(first) <= 200 else f"{first[:199]}…"
