"""The end of a run: what is in flight is settled, the records end, hooks and threads are released."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import weakref
from collections.abc import Callable

from opal.backends.base import Backend
from opal.decisions.ask import Answered
from opal.decisions.worker import DecisionWorker
from opal.engine.activations import ActivationTap
from opal.engine.check import Checker
from opal.engine.decide import Decisions
from opal.engine.journal import Journal, Progress
from opal.engine.run_record import RunRecord
from opal.engine.timing import UpdateClock
from opal.engine.upkeep import Upkeep
from opal.engine.user_optimizers import UserOptimizers
from opal.programs.slots import ProgramSlots
from opal.prompts.decision_message import render_closing_message
from opal.prompts.inbox import write_inbox
from opal.records import events

_SETTLE_SECONDS = 10.0
_REPORT_SWITCH = "OPAL_REPORT"


class Closing:
    """`close()`, also at exit. A second call does nothing."""

    def __init__(
        self,
        *,
        journal: Journal,
        progress: Progress,
        checker: Checker,
        decisions: Decisions,
        worker: DecisionWorker[Answered],
        backend: Backend,
        slots: ProgramSlots,
        clock: UpdateClock,
        upkeep: Upkeep,
        optimizers: UserOptimizers,
        tap: ActivationTap,
        record: RunRecord,
    ) -> None:
        self._journal = journal
        self._progress = progress
        self._checker = checker
        self._decisions = decisions
        self._worker = worker
        self._backend = backend
        self._slots = slots
        self._clock = clock
        self._upkeep = upkeep
        self._optimizers = optimizers
        self._tap = tap
        self._record = record
        self._closed = False
        self._process = os.getpid()
        atexit.register(_close_at_exit, weakref.ref(self))

    def close(self, *, interrupted: bool) -> None:
        """End the run."""
        if self._closed or os.getpid() != self._process:  # a forked child has no threads of the run's
            return
        self._closed = True
        self._attempt(lambda: self._checker.read_losses(self._progress.update))
        self._attempt(self._settle_decision)
        self._attempt(self._say_goodbye)
        self._attempt(lambda: self._end_records(interrupted=interrupted))
        self._tap.close()
        self._optimizers.unwatch()
        self._upkeep.stop()
        self._attempt(self._start_report)

    def _attempt(self, step: Callable[[], None]) -> None:
        """One step of the end; a mistake in it keeps none of the others from happening."""
        try:
            step()
        except Exception as error:
            self._journal.defect(error)

    def _settle_decision(self) -> None:
        """Stop a decision that is open; what it would bring comes too late."""
        if self._decisions.open:
            self._backend.cancel()
            self._worker.wait(_SETTLE_SECONDS)
            self._decisions.abandon("the run ended first")
        self._worker.stop(_SETTLE_SECONDS if self._worker.idle else 0.0)
        self._backend.close()

    def _say_goodbye(self) -> None:
        """The closing message, if the agent was asked at all."""
        if self._decisions.agenda.asked == 0:
            return
        folder, losses = self._journal.folder, self._decisions.recent_losses()
        request = self._decisions.closing_request()
        message = render_closing_message(request)
        self._journal.writer.text(folder.decisions / "closing.txt", message)
        self._journal.writer.text(folder.inbox / "closing.md", message)
        try:
            write_inbox(folder, request, losses, request.reports)
        except OSError as error:
            self._journal.warn(f"the closing message cannot be written into the inbox ({error})")

    def _end_records(self, *, interrupted: bool) -> None:
        finished = self._progress.update >= self._progress.total_steps
        outcome = "finished" if finished else "interrupted" if interrupted else "closed early"
        version, waited = self._slots.running.version, self._clock.agent_wait_seconds
        self._journal.record(
            events.RunEnded,
            outcome=outcome,
            version=version,
            agent_wait_seconds=waited,
            cost_usd=self._decisions.cost_usd or None,
        )
        self._record.ended(
            outcome=outcome, updates=self._progress.update, final_version=version, agent_wait_seconds=waited
        )
        if not self._journal.writer.close(_SETTLE_SECONDS):
            self._journal.inform("the last records could not be written in time")

    def _start_report(self) -> None:
        """Build the page in another process, of low priority; the run does not wait for it."""
        if os.environ.get(_REPORT_SWITCH, "on") == "off" or self._decisions.agenda.asked == 0:
            return
        nice = ["nice", "-n", "10"] if os.name == "posix" else []
        command = [*nice, sys.executable, "-m", "opal.cli.main", "report", str(self._journal.folder.root)]
        try:
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._journal.inform(f"the report cannot be built ({error}); try: opal report")


def _close_at_exit(reference: weakref.ReferenceType[Closing]) -> None:
    closing = reference()
    if closing is not None:
        closing.close(interrupted=True)
