"""Wall time per update, the program's part of it, and the time that training waited for the agent."""

from __future__ import annotations

import math
from time import perf_counter

from opal.types import Timing


class UpdateClock:
    """Times intervals of ordinary updates: from the end of one pause to the beginning of the next.

    Checks and the first update after a swap lie in pauses. `program_seconds` grows by each update's part and is reset
    with every interval; on a device it is the time that the host needed.
    """

    def __init__(self) -> None:
        self.program_seconds = 0.0
        self.agent_wait_seconds = 0.0
        self.wall_ms = math.nan
        self.program_ms = math.nan
        self._starting = (math.nan, math.nan)
        self._began: tuple[float, int] | None = None

    def pause(self, update: int, *, starting_program: bool) -> None:
        """End an interval before `update` is applied."""
        if self._began is not None:
            count = update - self._began[1]
            if count > 0:
                self.wall_ms = 1000 * (perf_counter() - self._began[0]) / count
                self.program_ms = 1000 * self.program_seconds / count
                if starting_program:
                    self._starting = (self.wall_ms, self.program_ms)
        self._began = None

    def resume(self, update: int) -> None:
        """Begin an interval with `update`, which is about to be applied."""
        self.program_seconds = 0.0
        self._began = (perf_counter(), update)

    def forget(self) -> None:
        """A new program takes over: what was measured is not its."""
        self.wall_ms = self.program_ms = math.nan
        self._began = None

    def timing(self) -> Timing:
        """The last interval, beside the starting program's last one."""
        return Timing(
            wall_ms=self.wall_ms,
            program_ms=self.program_ms,
            starting_wall_ms=self._starting[0],
            starting_program_ms=self._starting[1],
        )
