"""A failing program is undone, or reverted to an earlier one. Training goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from opal.engine.apply_update import Loss, UpdateApplier
from opal.engine.swap import ProgramSwitch
from opal.programs.failure import describe_failure
from opal.programs.slots import ProgramSlots
from opal.types import Failure, Stage, Undone


class Recovery:
    """Deals with an update that a program failed."""

    def __init__(
        self,
        *,
        slots: ProgramSlots,
        applier: UpdateApplier,
        switch: ProgramSwitch,
        on_failed: Callable[[Failure, bool], None],
    ) -> None:
        self._slots = slots
        self._applier = applier
        self._switch = switch
        self._on_failed = on_failed

    def handle(self, error: BaseException, update: int, loss: Loss) -> Any:
        """Put an earlier program in force.

        A first update whose traces are gone is made again by the program before. Otherwise the gradient of this update
        has been used, in part perhaps, and the earlier program begins with the next one.
        """
        trial = self._slots.trial
        if trial is None:
            failure = self._describe(error, "update", update, "not")
            self._rebuild(update)
        elif self._slots.snapshot is not None:
            failure = self._describe(error, "first update", update, "exactly")
            self._undo()
        else:
            first = update == trial.first_update
            failure = self._describe(error, "first update" if first else "trial", update, "not")
            self._slots.fall_back()
            self._switch.install(self._slots.running)
        self._on_failed(dataclasses.replace(failure, goes_on_with=self._slots.running.version), trial is None)
        return self._applier.apply_again(update, loss) if failure.undone == "exactly" else None

    def _undo(self) -> None:
        """Everything is as before the build: parameters, gradients, states, schedule, the program that ran."""
        trial, snapshot = self._slots.trial, self._slots.snapshot
        assert trial is not None
        assert snapshot is not None
        trial.undo()
        snapshot.restore()
        self._slots.take_back()
        self._applier.install(self._slots.running)

    def _rebuild(self, update: int) -> None:
        """Build the latest earlier version that can be built; the starting one always can."""
        shadows = self._switch.shadow()
        for version, files in self._slots.earlier():
            try:
                program = self._switch.rebuild(version, files, update)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                continue
            self._slots.rebuilt(program)
            self._switch.install(program, shadows)
            return
        raise AssertionError("the starting program can always be built")

    def _describe(self, error: BaseException, stage: Stage, update: int, undone: Undone) -> Failure:
        running = self._slots.running
        return describe_failure(
            error,
            version=running.version,
            version_in_traceback=running.modules.version,
            stage=stage,
            update=update,
            undone=undone,
            goes_on_with="",
        )
