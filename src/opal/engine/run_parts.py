"""The parts that the wrapped optimizer hands its calls to."""

from __future__ import annotations

from dataclasses import dataclass

from opal.engine.apply_update import UpdateApplier
from opal.engine.closing import Closing
from opal.engine.decide import Decisions
from opal.engine.journal import Journal, Progress
from opal.engine.losses import LossRing
from opal.engine.timeline import Timeline
from opal.engine.timing import UpdateClock
from opal.engine.upkeep import Upkeep
from opal.engine.user_optimizers import UserOptimizers
from opal.engine.user_schedulers import UserSchedulers
from opal.programs.slots import ProgramSlots
from opal.records.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """Built by `assemble`, and by nobody else."""

    progress: Progress
    timeline: Timeline
    ring: LossRing
    applier: UpdateApplier
    upkeep: Upkeep
    slots: ProgramSlots
    optimizers: UserOptimizers
    schedulers: UserSchedulers
    decisions: Decisions
    journal: Journal
    clock: UpdateClock
    closing: Closing
    folder: RunFolder
