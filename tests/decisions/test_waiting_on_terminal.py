"""The live line on a terminal shows that training waits, and leaves the run's random numbers alone."""

from __future__ import annotations

import io
import random
import sys

import pytest

from opal.decisions.waiting import wait_with_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_waiting_on_a_terminal_shows_what_for_and_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, False, True])

    def wait(seconds: float) -> bool:
        random.random()  # as Rich does
        return next(answers)

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    random.seed(3)
    state = random.Random(3)
    state.random()  # the first look comes before the line
    assert wait_with_line(wait, "training waits for decision 7") >= 0
    assert "training waits for decision 7" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert random.random() == state.random()
