"""An answer becomes a running program: load, build, take over at the update that comes. What fails leaves no trace.

A candidate takes over as a whole, updater and analysis, or not at all, so that one version is in force at any time.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opal.engine.apply_update import UpdateApplier
from opal.engine.user_optimizers import UserOptimizers
from opal.engine.user_schedulers import Shadows, UserSchedulers
from opal.errors import ProgramFileError
from opal.programs.analysis import Analysis, load_analysis
from opal.programs.contract import ProgramFiles
from opal.programs.failure import describe_failure
from opal.programs.load import ProgramModules
from opal.programs.running import RunningProgram, build_program
from opal.programs.slots import ProgramSlots, Trial
from opal.programs.snapshot import Snapshot, snapshot_bytes
from opal.types import Failure, Stage, Undone


@dataclass(frozen=True, kw_only=True)
class Swapped:
    """What became of a candidate: its version, the sides that are new, or what failed."""

    version: str
    sides: tuple[str, ...]
    failure: Failure | None
    seconds: float


class ProgramSwitch:
    """Puts programs in force."""

    def __init__(
        self,
        *,
        slots: ProgramSlots,
        applier: UpdateApplier,
        optimizers: UserOptimizers,
        schedulers: UserSchedulers,
        spec: Callable[[int], dict[str, Any]],
        rates: Callable[[], list[Any]],
        trial_steps: int,
        snapshot_limit_bytes: float,
        every: int,
        warn_once: Callable[[str], None],
    ) -> None:
        self._slots = slots
        self._applier = applier
        self._optimizers = optimizers
        self._schedulers = schedulers
        self._spec = spec
        self._rates = rates
        self._trial_steps = trial_steps
        self._limit = snapshot_limit_bytes
        self._every = every
        self._warn_once = warn_once

    def swap(self, files: ProgramFiles, update: int) -> Swapped:
        """Let a candidate, which differs from the running program, take over before `update`."""
        began = time.perf_counter()
        running = self._slots.running
        version = self._slots.next_version()
        new_updater = not files.same_updater(running.files)
        new_analysis = not files.same_analysis(running.files)
        analysis: Analysis | Failure = running.analysis
        if new_analysis:
            analysis = self._load_analysis(ProgramModules(version, files), update)
        failure = analysis if isinstance(analysis, Failure) else None
        if isinstance(analysis, Analysis):
            if new_updater:
                failure = self._swap_updater(ProgramModules(version, files), analysis, update)
            else:
                self._slots.change_analysis(
                    dataclasses.replace(running, version=version, files=files, analysis=analysis)
                )
            if failure is not None and new_analysis:
                analysis.modules.unload()
        sides = [name for name, new in (("updater", new_updater), ("analysis", new_analysis)) if new and not failure]
        return Swapped(version=version, sides=tuple(sides), failure=failure, seconds=time.perf_counter() - began)

    def install(self, program: RunningProgram, shadows: Shadows | None = None) -> None:
        """Let a program that is built make the updates; give it, or take from it, the script's schedule.

        `shadows`: the script's groups as they were before it was built, where it was built just now.
        """
        if program.follows_scheduler:
            self._schedulers.resume(everything=program.is_starting)
        elif not self._schedulers.paused:
            self._schedulers.pause(shadows or self._schedulers.shadow(), self._rates)
        self._applier.install(program)

    def shadow(self) -> Shadows:
        """The script's groups as they are now, for `install`."""
        return self._schedulers.shadow()

    def rebuild(self, version: str, files: ProgramFiles, update: int) -> RunningProgram:
        """Build an earlier version anew, without state. Whatever it raises comes through."""
        analysis = load_analysis(ProgramModules(version, files), self._every)
        is_starting = version == self._slots.starting_version
        return build_program(
            ProgramModules(version, files),
            analysis,
            self._optimizers.named_params,
            None,
            self._spec(update),
            is_starting=is_starting,
        )

    def _load_analysis(self, modules: ProgramModules, update: int) -> Analysis | Failure:
        try:
            return load_analysis(modules, self._every)
        except BaseException as error:
            failure = self._describe(error, modules.version, "analysis", update, "nothing to undo")
            modules.unload()
            return failure

    def _swap_updater(self, modules: ProgramModules, analysis: Analysis, update: int) -> Failure | None:
        running = self._slots.running
        snapshot = self._snapshot(running)
        in_control, shadows = self._schedulers.capture(), self._schedulers.shadow()
        stage: Stage = "import"
        try:
            modules.load("updater")
            stage = "build"
            program = build_program(
                modules, analysis, self._optimizers.named_params, running.updater, self._spec(update)
            )
        except BaseException as error:
            if snapshot is not None:
                snapshot.restore()
            failure = self._describe(error, modules.version, stage, update, "exactly" if snapshot else "not")
            modules.unload()
            return failure
        if program.follows_scheduler:
            self._schedulers.resume(everything=False)
        else:
            self._schedulers.pause(shadows, self._rates)
        trial = Trial(
            previous=running,
            previous_trial=self._slots.trial,
            first_update=update,
            ends_before=update + self._trial_steps,
            undo=lambda: self._schedulers.put_back(in_control),
        )
        self._slots.begin_trial(program, trial, snapshot)
        self._applier.install(program)
        return None

    def _snapshot(self, running: RunningProgram) -> Snapshot | None:
        """A copy of everything that a candidate may change, or None where it is larger than allowed."""
        params, optimizers = self._optimizers.named_params, self._optimizers.optimizers
        snapshot, size = None, snapshot_bytes(params, optimizers)
        if size <= self._limit:
            # The estimate knows nothing of the running updater's own state.
            snapshot = Snapshot(params, [*optimizers, *self._schedulers.schedulers, running.updater])
            size = snapshot.nbytes
        if size <= self._limit:
            return snapshot
        self._warn_once(
            f"a snapshot needs {size / 1e9:.3g} GB and snapshot_limit_gb allows {self._limit / 1e9:.3g}: "
            "a program that fails as it starts cannot be undone exactly"
        )
        return None

    def _describe(self, error: BaseException, version: str, stage: Stage, update: int, undone: Undone) -> Failure:
        if isinstance(error, KeyboardInterrupt):
            raise error
        return describe_failure(
            error,
            version=version,
            version_in_traceback=version,
            stage="files" if isinstance(error, ProgramFileError) else stage,
            update=update,
            undone=undone,
            goes_on_with=self._slots.running.version,
        )
