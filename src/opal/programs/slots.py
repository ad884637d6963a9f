"""Which program runs, whether it is on trial, and what to go back to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opal.programs.contract import ProgramFiles
from opal.programs.running import RunningProgram
from opal.programs.snapshot import Snapshot
from opal.programs.starting import STARTING_VERSION


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """The first updates of a new updater. `undo` brings back what its build changed outside the snapshot."""

    previous: RunningProgram
    previous_trial: Trial | None
    first_update: int
    ends_before: int
    undo: Callable[[], None]


class ProgramSlots:
    """The versions of a run. A program that passed its trial is the fallback until another one passes."""

    starting_version = STARTING_VERSION

    def __init__(self, starting: RunningProgram) -> None:
        self.running = starting
        self.fallback = starting
        self.trial: Trial | None = None
        self.snapshot: Snapshot | None = None
        self._passed: list[tuple[str, ProgramFiles]] = [(STARTING_VERSION, starting.files)]
        self._last_number = 0
        self._edited = False

    @property
    def edited(self) -> bool:
        """Whether another program than the starting one was ever in force."""
        return self._edited

    def next_version(self) -> str:
        """A name for a candidate; each is given once, also to one that never runs."""
        self._last_number += 1
        return f"v{self._last_number:03d}"

    def begin_trial(self, program: RunningProgram, trial: Trial, snapshot: Snapshot | None) -> None:
        """A new updater takes over."""
        self.running, self.trial, self.snapshot = program, trial, snapshot
        self._edited = True

    def change_analysis(self, program: RunningProgram) -> None:
        """The running updater goes on under a new version, with another analysis; its trial goes on too."""
        if self.trial is None:
            self.fallback = program
            self._passed.append((program.version, program.files))
        self.running = program
        self._edited = True

    def pass_trial(self) -> None:
        """The running updater is the fallback from now on; the former one is let go."""
        former, self.fallback = self.fallback, self.running
        self.trial = None
        self._passed.append((self.running.version, self.running.files))
        self._forget(former)

    def take_back(self) -> None:
        """The program before the one on trial runs again, on its own trial if it was on one."""
        assert self.trial is not None
        failed, trial = self.running, self.trial
        self.running, self.trial, self.snapshot = trial.previous, trial.previous_trial, None
        self._forget(failed)

    def fall_back(self) -> None:
        """The fallback runs instead of a program on trial."""
        failed = self.running
        self.running, self.trial, self.snapshot = self.fallback, None, None
        self._forget(failed)

    def earlier(self) -> list[tuple[str, ProgramFiles]]:
        """Versions with another updater that passed their trial before the running one, latest first."""
        return [item for item in reversed(self._passed) if not item[1].same_updater(self.running.files)]

    def rebuilt(self, program: RunningProgram) -> None:
        """An earlier version was built anew, after the running one failed when its trial was over."""
        failed = self.running
        names = [version for version, _ in self._passed]
        del self._passed[names.index(program.version) + 1 :]
        self.running = self.fallback = program
        self.trial = self.snapshot = None
        self._forget(failed)

    def _forget(self, program: RunningProgram) -> None:
        """Let a program's modules go, unless they are still in use."""
        if program.modules not in (self.running.modules, self.fallback.modules):
            program.modules.unload()
        if program.analysis.modules not in (self.running.analysis.modules, self.fallback.analysis.modules):
            program.analysis.modules.unload()
