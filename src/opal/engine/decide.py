"""A decision is asked; its answer is taken up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from opal.decisions.agenda import Agenda
from opal.decisions.ask import AgentDesk, Answered, Question
from opal.decisions.loss_history import LossMemory
from opal.decisions.untold import Untold
from opal.decisions.waiting import WaitPolicy, wait_with_line
from opal.decisions.worker import DecisionWorker
from opal.engine.journal import Journal, Progress, refusal
from opal.engine.measure import Measurement
from opal.engine.swap import ProgramSwitch, Swapped
from opal.engine.timing import UpdateClock
from opal.programs.failure import describe_failure
from opal.programs.slots import ProgramSlots
from opal.records import events
from opal.types import DecisionRequest, GroupRate, Metric, Outcome, ProgramAudit, Reason


class Decisions:
    """Asks the agent when the agenda says so, and puts what it left in force."""

    def __init__(
        self,
        *,
        agenda: Agenda,
        desk: AgentDesk,
        worker: DecisionWorker[Answered],
        policy: WaitPolicy,
        slots: ProgramSlots,
        switch: ProgramSwitch,
        journal: Journal,
        losses: LossMemory,
        measurement: Measurement,
        clock: UpdateClock,
        progress: Progress,
        show_next: bool,
        pause_on_nonfinite: bool,
        rates: Callable[[], tuple[GroupRate, ...]],
        on_swapped: Callable[[Swapped, int], None],
    ) -> None:
        self.agenda = agenda
        self._desk = desk
        self._worker = worker
        self._policy = policy
        self._slots = slots
        self._switch = switch
        self._journal = journal
        self._losses = losses
        self._measurement = measurement
        self._clock = clock
        self._progress = progress
        self._show_next = show_next
        self._pause_on_nonfinite = pause_on_nonfinite
        self._rates = rates
        self._on_swapped = on_swapped
        self._workspace_differs = False
        self._asked_at = 0
        self._ended = False
        self._development: list[Metric] = []
        self._starting_audit: tuple[ProgramAudit, ...] = ()
        self._made_by: dict[str, int] = {}
        self.cost_usd = 0.0

    @property
    def open(self) -> bool:
        """Whether an answer is awaited."""
        return self._worker.busy

    def workspace_differs(self) -> None:
        """The workspace holds what is not in force: put the running program there before the next question."""
        self._workspace_differs = True

    def made_by(self, version: str) -> int:
        """The decision whose answer a version is."""
        return self._made_by[version]

    def measured(self, metric: Metric) -> None:
        """A shown or development value, for the next message."""
        self._journal.untold.metrics.append(metric)

    def consider(self, update: int) -> None:
        """Ask now if something is due and nothing is open; wait for the answer where training waits."""
        if math.isfinite(self._clock.wall_ms):
            self._policy.undisturbed(self._clock.wall_ms / 1000)
        if self._worker.busy:
            return
        reasons = self.agenda.take(update)
        for reason in self.agenda.missed():
            self._journal.record(events.DecisionMissed, why=f"{_text(reason)}, and max_decisions leaves no room")
        if not reasons:
            return
        waits, why = self._policy.choose()
        if self._pause_on_nonfinite and any(reason.kind == "nonfinite" for reason in reasons):
            waits, why = True, "a loss is not finite"
        question = self._question(update, reasons, waits=waits)
        number, self._asked_at = question.request.number, update
        self._journal.record(
            events.DecisionAsked, decision=number, reasons=tuple(_text(reason) for reason in reasons), waits=waits
        )
        if self._policy.chooses:
            self._journal.record(events.WaitingChosen, decision=number, waits=waits, why=why)
        self._worker.start(lambda: self._desk.ask(question))
        if waits:
            what = f"training waits for decision {number} (update {update} of {self._progress.total_steps})"
            self._clock.agent_wait_seconds += wait_with_line(self._worker.wait, what)
            self.collect(update)

    def collect(self, update: int) -> None:
        """Take up an answer if one is there: from `update` on it counts. After the end of the run none counts."""
        answered = None if self._ended else self._worker.take()
        if answered is None:
            return
        self._policy.answered(answered.seconds)
        self._workspace_differs = False
        outcome = self._take_up(answered, update)
        self._journal.untold.outcomes.append(outcome)

    def closing_request(self) -> DecisionRequest:
        """What the closing message is made of, after the last decision."""
        return self._request(self._progress.update, (), waits=False, number=0)

    def abandon(self, why: str) -> None:
        """The run ends while an answer is awaited; what comes later is not used."""
        self._ended = True
        self._journal.record(
            events.DecisionUnanswered, decision=self.agenda.asked, asked_at=self._asked_at, seconds=0.0, why=why
        )

    def recent_losses(self) -> list[tuple[int, float]]:
        """(update, loss) since the last decision."""
        return self._losses.recent()

    def _question(self, update: int, reasons: tuple[Reason, ...], *, waits: bool) -> Question:
        request = self._request(update, reasons, waits=waits, number=self.agenda.asked)
        question = Question(
            request=request,
            losses=self._losses.recent(),
            reports=list(self._measurement.reports),
            running=self._slots.running.files,
            restore_workspace=self._workspace_differs,
        )
        self._losses.mark()
        return question

    def _request(self, update: int, reasons: tuple[Reason, ...], *, waits: bool, number: int) -> DecisionRequest:
        untold: Untold = self._journal.untold.take()
        self._development += [metric for metric in untold.metrics if metric.development and metric.shown]
        agenda, per_epoch = self.agenda, self._measurement.updates_per_epoch
        return DecisionRequest(
            number=number,
            update=update,
            total_updates=self._progress.total_steps,
            epoch=None if per_epoch is None else update / per_epoch,
            waits=waits,
            reasons=reasons,
            first=number == 1,
            last=number > 0 and agenda.left == 0,
            next_update=agenda.next_scheduled if self._show_next and agenda.left else None,
            decisions_left=agenda.left,
            running_version=self._slots.running.version,
            previous=tuple(untold.outcomes),
            losses=self._losses.since(),
            development=tuple(self._development[-100:]),
            reports=tuple(self._measurement.reports),
            metrics=tuple(metric for metric in untold.metrics if metric.shown and not metric.development),
            failures=tuple(untold.failures),
            rates=self._rates(),
            timing=self._clock.timing(),
            audits=self._audits(untold.audits),
            notes=tuple(untold.notes),
            warnings=tuple(untold.warnings),
        )

    def _audits(self, new: list[ProgramAudit]) -> tuple[ProgramAudit, ...]:
        """New audits, with the starting program's beside them."""
        if not self._starting_audit:
            self._starting_audit = tuple(audit for audit in new if audit.version == self._slots.starting_version)[:1]
        return (*(audit for audit in self._starting_audit if new and audit not in new), *new)

    def _take_up(self, answered: Answered, update: int) -> Outcome:
        request, answer = answered.question.request, answered.answer
        folder = self._journal.folder.decision(request.number)
        running = self._slots.running
        if answer is None:
            self._workspace_differs = True
            self._journal.warn(f"decision {request.number} is unanswered ({answered.problem}); the programs stay")
            self._journal.record(
                events.DecisionUnanswered,
                decision=request.number,
                asked_at=request.update,
                seconds=answered.seconds,
                why=answered.problem,
            )
            return _outcome(request, "unanswered", f"no answer came ({answered.problem}); {running.version} stays")
        files, asked_about = answered.files, answered.question.running
        # A program that was reverted meanwhile, and lies in the workspace as it was, is no edit.
        edited = answered.refused is not None or (
            files is not None and not files.same(asked_about) and not files.same(running.files)
        )
        self._record_answer(answered, edited=edited)
        if answered.refused is not None:
            return self._refuse_files(answered, update)
        if files is None or not edited:
            self._workspace_differs = files is None or not files.same(running.files)
            return _outcome(request, "kept", f"the programs were kept; {running.version} goes on")
        swapped = self._switch.swap(files, update)
        self._made_by[swapped.version] = request.number
        self._on_swapped(swapped, update)
        if swapped.failure is not None:
            self._workspace_differs = True
            self._journal.candidate_refused(request.number, swapped.failure)
            for name, text in files.texts.items():
                self._journal.writer.text(folder / "rejected" / name, text)
                self._journal.writer.text(self._journal.folder.inbox / f"refused_{request.number:03d}" / name, text)
            return _outcome(request, "refused", refusal(swapped.failure), swapped.version)
        return self._applied(request, swapped, update, running.version)

    def _applied(self, request: DecisionRequest, swapped: Swapped, update: int, previous: str) -> Outcome:
        journal, files = self._journal, self._slots.running.files
        journal.writer.program(swapped.version, files.texts)
        journal.writer.text(journal.folder.final, swapped.version + "\n")
        journal.record(
            events.ProgramApplied,
            decision=request.number,
            version=swapped.version,
            previous=previous,
            asked_at=request.update,
            effective_from=update,
            sides=swapped.sides,
            seconds=swapped.seconds,
        )
        sides = " and ".join(swapped.sides)
        late = f", {update - request.update} updates after it was asked" if update > request.update else ""
        journal.inform(f"update {update}: {swapped.version} takes over ({sides} changed by decision {request.number})")
        sentence = f"{swapped.version} ({sides} changed) took over at update {update}{late}"
        return _outcome(request, "applied", sentence, swapped.version, update)

    def _refuse_files(self, answered: Answered, update: int) -> Outcome:
        request, running = answered.question.request, self._slots.running.version
        assert answered.refused is not None
        failure = describe_failure(
            answered.refused,
            version=self._slots.next_version(),
            version_in_traceback="",
            stage="files",
            update=update,
            undone="nothing to undo",
            goes_on_with=running,
        )
        self._workspace_differs = True
        self._journal.candidate_refused(request.number, failure)
        return _outcome(request, "refused", refusal(failure), failure.version)

    def _record_answer(self, answered: Answered, *, edited: bool) -> None:
        request, answer = answered.question.request, answered.answer
        assert answer is not None
        self.cost_usd += answer.cost_usd or 0.0
        self._journal.record(
            events.DecisionAnswered,
            decision=request.number,
            asked_at=request.update,
            seconds=answered.seconds,
            edited=edited,
            text=answer.text[:2000],
            cost_usd=answer.cost_usd,
        )
        response: dict[str, Any] = {
            "text": answer.text,
            "edited": edited,
            "seconds": answered.seconds,
            "cost_usd": answer.cost_usd,
            "usage": dict(answer.usage),
            "details": dict(answer.details),
        }
        self._journal.writer.json(self._journal.folder.decision(request.number) / "response.json", response)


def _outcome(
    request: DecisionRequest, kind: Any, sentence: str, version: str | None = None, effective: int | None = None
) -> Outcome:
    return Outcome(
        decision=request.number,
        kind=kind,
        sentence=sentence,
        version=version,
        asked_at=request.update,
        effective_from=effective,
    )


def _text(reason: Reason) -> str:
    return f"{reason.kind}: {reason.detail}" if reason.detail else reason.kind
