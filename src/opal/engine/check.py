"""A check: losses are read, non-finite values found, the analysis is called, a decision is asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from opal.decisions.loss_history import LossMemory
from opal.distributed.coordinator import Coordinator
from opal.engine.decide import Decisions
from opal.engine.journal import Journal, Progress
from opal.engine.losses import LossRing
from opal.engine.measure import Measurement
from opal.engine.timeline import Timeline
from opal.engine.timing import UpdateClock
from opal.programs.analysis import Analyzed
from opal.programs.slots import ProgramSlots
from opal.records import events
from opal.types import Failure, Metric, Reason


class Checker:
    """Runs checks before updates that are multiples of `every`, and before those at which the analysis is called."""

    def __init__(
        self,
        *,
        every: int,
        timeline: Timeline,
        ring: LossRing,
        coordinator: Coordinator,
        slots: ProgramSlots,
        losses: LossMemory,
        measurement: Measurement,
        decisions: Decisions,
        journal: Journal,
        clock: UpdateClock,
        progress: Progress,
        rates: Callable[[], list[Any]],
    ) -> None:
        self._every = every
        self._timeline = timeline
        self._ring = ring
        self._coordinator = coordinator
        self._slots = slots
        self._losses = losses
        self._measurement = measurement
        self._decisions = decisions
        self._journal = journal
        self._clock = clock
        self._progress = progress
        self._rates = rates
        self._was_finite = True
        self._shown: list[Metric] = []

    def show(self, metric: Metric) -> None:
        """A value that the agent may see, for the analysis and the next message."""
        self._shown.append(metric)
        self._decisions.measured(metric)

    def plan(self, update: int) -> None:
        """Set the points of the next check after `update`, and of the update before the analysis is called."""
        following = _next_multiple(update, self._every)
        analysis = _next_multiple(update, self._measurement.every)
        self._timeline.set("check", min(following, analysis))
        self._timeline.set("prepare", analysis - 1)

    def prepare(self, update: int) -> None:
        """The analysis is called before the next update."""
        self._timeline.clear("prepare")
        self._measurement.prepare(update)

    def check(self, update: int) -> None:
        """Everything that is due before `update`, which is not applied yet; its loss and gradients are there."""
        self._clock.pause(update, starting_program=self._slots.running.is_starting)
        self.read_losses(update)
        if self._measurement.is_due(update):
            self._analyze(update)
        if update < self._progress.total_steps:
            self._decisions.consider(update)
        self.plan(update)
        if update + 1 == _next_multiple(update, self._measurement.every):
            self.prepare(update)
        self._clock.resume(update)

    def read_losses(self, update: int) -> None:
        """Read what the ring holds and write it down."""
        first = self._ring.first
        losses = self._ring.take(update)
        if not losses:
            return
        self._losses.add(first, losses)
        self._measurement.observe(losses)
        self._find_nonfinite(first, losses)
        self._journal.writer.check(
            events.CheckRecord(
                update=update,
                first=first,
                values=tuple(losses),
                learning_rates=tuple([float(rate) for rate in self._rates()]),
                wall_ms=self._clock.wall_ms,
                program_ms=self._clock.program_ms,
                version=self._slots.running.version,
            )
        )

    def _find_nonfinite(self, first: int, losses: list[float | None]) -> None:
        """Ask once when the loss turns non-finite; again only after it was finite."""
        given = losses if None not in losses else [loss for loss in losses if loss is not None]
        if math.isfinite(sum(given)):  # type: ignore[arg-type]
            self._was_finite = self._was_finite or bool(given)
            return
        bad = [index for index, loss in enumerate(losses) if loss is not None and not math.isfinite(loss)]
        if not bad:  # finite values, too large for their sum
            return
        if self._was_finite:
            update = first + bad[0]
            self._journal.record(events.NonfiniteLoss, first_update=update)
            self._journal.warn(f"the loss is not finite at update {update}")
            detail = f"the loss is not finite, first at update {update}"
            self._decisions.agenda.want(Reason(kind="nonfinite", detail=detail))
        self._was_finite = False

    def _analyze(self, update: int) -> None:
        shown, self._shown = self._shown, []
        metrics = [{"update": metric.update, "name": metric.name, "value": metric.value} for metric in shown]
        result = self._measurement.call(update, metrics)
        if isinstance(result, Failure):
            self._journal.analysis_failed(result)
            return
        self._record(result)

    def _record(self, result: Analyzed) -> None:
        if result.report is not None:
            self._journal.writer.report(result.report)
        if result.cut:
            self._journal.untold.warn("a report was longer than 64 KiB and was cut")
        if result.wake:
            self._journal.record(events.AnalysisWoke, why=result.wake)
            self._decisions.agenda.want(Reason(kind="wake", detail=result.wake))


def _next_multiple(update: int, interval: int) -> int:
    return (update // interval + 1) * interval
