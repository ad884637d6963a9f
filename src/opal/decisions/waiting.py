"""Whether training waits for a decision, and what a person sees while it does."""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from collections.abc import Callable
from statistics import median

from opal.config import Blocking
from opal.records.log import inform

_REMEMBERED = 5
_LIVE_LINE_AFTER = 1.0
_LOG_EVERY = 60.0


class WaitPolicy:
    """Decides for each decision whether training waits; with `"auto"` from the last five answers."""

    def __init__(self, blocking: Blocking, max_lag_updates: int) -> None:
        self._blocking = blocking
        self._max_lag = max_lag_updates
        self._answers: deque[float] = deque(maxlen=_REMEMBERED)
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def chooses(self) -> bool:
        """Whether it chooses for each decision anew."""
        return not isinstance(self._blocking, bool)

    def answered(self, seconds: float) -> None:
        """An answer took this long."""
        self._answers.append(seconds)

    def undisturbed(self, seconds_per_update: float) -> None:
        """An interval without a wait had updates of this length."""
        self._intervals.append(seconds_per_update)

    def choose(self) -> tuple[bool, str]:
        """Whether training waits, and why."""
        if isinstance(self._blocking, bool):
            return self._blocking, "as asked for"
        if not self._answers:
            return True, "it is the first decision"
        if not self._intervals:
            return True, "no interval without a wait was timed yet"
        lag = median(self._answers) / max(median(self._intervals), 1e-9)
        verdict = "above" if lag > self._max_lag else "within"
        return lag > self._max_lag, f"an answer is expected {lag:.0f} updates late, {verdict} {self._max_lag}"


def wait_with_line(wait: Callable[[float], bool], what: str) -> float:
    """Wait until `wait(seconds)` is true: a live line on a terminal, a line a minute in a log. Returns the seconds."""
    began = time.monotonic()
    if wait(_LIVE_LINE_AFTER):
        return time.monotonic() - began
    if sys.stderr.isatty():
        _wait_on_terminal(wait, what, began)
    else:
        said = began
        while not wait(_LIVE_LINE_AFTER):
            if time.monotonic() - said >= _LOG_EVERY:
                said = time.monotonic()
                inform(f"{what}, {said - began:.0f} s so far")
    return time.monotonic() - began


def _wait_on_terminal(wait: Callable[[float], bool], what: str, began: float) -> None:
    state = random.getstate()
    # Rich draws from Python's global generator, on import too; the run must go on with the numbers that it would have.
    from rich.console import Console

    try:
        with Console(stderr=True).status(f"opal: {what}") as status:
            while not wait(1.0):
                status.update(f"opal: {what}, {time.monotonic() - began:.0f} s")
    finally:
        random.setstate(state)
