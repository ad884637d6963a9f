"""Everything that is due before an update, in order; what the run does about programs that took over or failed."""

from __future__ import annotations

from opal.checks.audit import UpdateAudit
from opal.engine.apply_update import UpdateApplier
from opal.engine.check import Checker
from opal.engine.decide import Decisions
from opal.engine.journal import Journal, Progress
from opal.engine.losses import LossRing
from opal.engine.swap import Swapped
from opal.engine.timeline import Timeline
from opal.engine.timing import UpdateClock
from opal.engine.user_optimizers import UserOptimizers
from opal.errors import RunStateError
from opal.programs.slots import ProgramSlots
from opal.records import events
from opal.records.commands import Command
from opal.types import Failure, Metric, Outcome, ProgramAudit, Reason


class Upkeep:
    """Called by the training loop when the timeline says so, and by nobody else."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        slots: ProgramSlots,
        applier: UpdateApplier,
        optimizers: UserOptimizers,
        clock: UpdateClock,
        journal: Journal,
        progress: Progress,
        ring: LossRing,
        trial_steps: int,
    ) -> None:
        self._timeline = timeline
        self._slots = slots
        self._applier = applier
        self._optimizers = optimizers
        self._clock = clock
        self._journal = journal
        self._progress = progress
        self._ring = ring
        self._trial_steps = trial_steps
        self._checker: Checker | None = None
        self._decisions: Decisions | None = None
        self._groups_changed = False
        self._stopped = False
        self._commands: list[Command] = []

    def begin(self, checker: Checker, decisions: Decisions) -> None:
        """Plan the first points: a check, an audit of the starting program, the end."""
        self._checker, self._decisions = checker, decisions
        checker.plan(0)
        self._timeline.set("audit", 2)
        self._timeline.set("clock", 3)
        self._timeline.set("end", self._progress.total_steps + 1)
        self._optimizers.watch(self._on_groups_changed)

    def before(self, update: int) -> None:
        """Do what is due before `update` is applied. A mistake of OPAL's own ends the checks, never the training."""
        self._progress.due = update
        try:
            self._phases(update)
        except RunStateError:
            raise
        except Exception as error:
            self.stop()
            self._journal.defect(error)

    def _phases(self, update: int) -> None:
        assert self._checker is not None
        timeline = self._timeline
        if timeline.is_due("first update", update):
            self._end_first_update()
        if timeline.is_due("trial", update):
            self._end_trial()
        if timeline.heard():
            self._listen(update)
        if timeline.is_due("prepare", update):
            self._checker.prepare(update)
        if timeline.is_due("check", update):
            self._optimizers.verify()
            self._checker.check(update)
        if timeline.is_due("clock", update):
            timeline.clear("clock")
            self._clock.resume(update)
        if timeline.is_due("audit", update):
            timeline.clear("audit")
            self._applier.audit_next(self._slots.running.modules.version, self._on_audited)
        if timeline.is_due("end", update):
            self._pass_end()

    def stop(self) -> None:
        """The run is closed, or its checks have ended: nothing is due any more but that somebody goes on training."""
        for name in ("check", "prepare", "audit", "clock", "end", "first update", "trial"):
            self._timeline.clear(name)
        if self._stopped:
            return
        self._stopped = True
        self._ring.stop()
        if self._slots.trial is not None:
            self._timeline.set("first update", self._slots.trial.first_update + 1)
            self._timeline.set("trial", self._slots.trial.ends_before)
        self._timeline.set("end", self._progress.update + 1)

    # ── What others tell ─────────────────────────────────────────────────────────────────────────────────────────

    def metric(
        self, name: str, value: float, *, shown: bool, development: bool = False, update: int | None = None
    ) -> None:
        """The script logged or measured something."""
        assert self._checker is not None
        at = self._progress.update if update is None else update
        metric = Metric(update=at, name=name, value=value, shown=shown, development=development)
        self._journal.writer.metric(metric)
        if shown:
            self._checker.show(metric)

    def commands(self, commands: list[Command]) -> None:
        """A person asked for something; called on the writer's thread."""
        self._commands += commands
        self._timeline.interrupt()

    def swapped(self, swapped: Swapped, update: int) -> None:
        """A candidate took over before `update`, or did not."""
        self._clock.forget()
        self._timeline.set("clock", update + 2)
        if "updater" in swapped.sides:
            self._timeline.set("first update", update + 1)
            self._timeline.set("trial", update + self._trial_steps)
            self._timeline.set("audit", update + 1)
        if "analysis" in swapped.sides:
            self._plan_checks(update - 1)

    def failed(self, failure: Failure, after_trial: bool) -> None:
        """A running updater failed, and an earlier one is in force."""
        assert self._decisions is not None
        journal, slots = self._journal, self._slots
        journal.program_failed(failure)
        journal.writer.text(journal.folder.final, slots.running.version + "\n")
        self._decisions.workspace_differs()
        version = failure.version
        undone = "every trace of it is undone" if failure.undone == "exactly" else "what it did is not undone"
        journal.untold.outcomes.append(
            Outcome(
                decision=self._decisions.made_by(version),
                kind="reverted",
                sentence=f"{version} failed at update {failure.update}; {undone}; {failure.goes_on_with} goes on",
                version=failure.version,
                effective_from=failure.update if failure.undone == "exactly" else failure.update + 1,
            )
        )
        self._clock.forget()
        self._timeline.set("clock", failure.update + 2)
        for name in ("first update", "trial", "audit"):
            self._timeline.clear(name)
        if slots.trial is not None:
            self._timeline.set("trial", slots.trial.ends_before)
        self._plan_checks(failure.update)
        if after_trial:
            detail = f"{failure.version} failed at update {failure.update}, after its trial"
            self._decisions.agenda.want(Reason(kind="failed_program", detail=detail))

    def adopted(self, name: str) -> None:
        """A scheduler built on the wrapper was taken over."""
        self._journal.record(events.SchedulerAdopted, name=name)

    def _plan_checks(self, update: int) -> None:
        """Another analysis is in force, perhaps with another interval: plan the checks after `update` anew."""
        assert self._checker is not None
        if not self._stopped:
            self._checker.plan(update)

    # ── Phases ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _listen(self, update: int) -> None:
        """Somebody interrupted: the optimizer's groups changed, a command came, an answer is there."""
        assert self._decisions is not None
        if self._groups_changed:
            self._timeline.interrupt()  # again at the next update, unless the set is right by then
            self._optimizers.verify()
            self._groups_changed = False
            self._timeline.heard()
        commands, self._commands = self._commands, []
        for command in commands:
            if command.name == "note":
                text = str(command.arguments.get("text", ""))
                self._journal.untold.notes.append(text)
                self._journal.record(events.NoteReceived, text=text)
        if update <= self._progress.total_steps:
            self._decisions.collect(update)

    def _end_first_update(self) -> None:
        self._timeline.clear("first update")
        self._slots.snapshot = None

    def _end_trial(self) -> None:
        self._timeline.clear("trial")
        if self._slots.trial is not None:
            self._slots.pass_trial()
            self._journal.record(events.TrialPassed, version=self._slots.running.version)

    def _pass_end(self) -> None:
        """More updates than `total_steps`: the last program goes on, without checks and decisions."""
        assert self._checker is not None
        for name in ("check", "prepare", "audit", "clock", "end"):
            self._timeline.clear(name)
        if not self._stopped:
            self._checker.read_losses(self._progress.update)
        self._stopped = True
        self._ring.stop()
        self._journal.warn_once(
            f"update {self._progress.total_steps + 1} is past total_steps={self._progress.total_steps}, or the run is "
            f"closed: {self._slots.running.version} goes on, without checks, decisions and records"
        )

    def _on_groups_changed(self) -> None:
        self._groups_changed = True
        self._timeline.interrupt()

    def _on_audited(self, audit: UpdateAudit) -> None:
        self._journal.audited(
            ProgramAudit(
                version=self._slots.running.version,
                update=self._progress.update + 1,
                operator_calls=audit.operator_calls,
                host_reads=audit.host_reads,
                host_read_places=audit.places(),
            )
        )
