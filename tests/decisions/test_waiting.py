"""Whether training waits, and how."""

from __future__ import annotations

import pytest

from opal.decisions.waiting import WaitPolicy, wait_with_line


@pytest.mark.parametrize("blocking", [True, False])
def test_the_person_decides(blocking: bool) -> None:
    policy = WaitPolicy(blocking, 50)
    policy.answered(1000.0)
    assert policy.choose()[0] is blocking


def test_auto_waits_at_first_then_by_the_median_answer_in_updates() -> None:
    policy = WaitPolicy("auto", 50)
    assert policy.choose() == (True, "it is the first decision")
    policy.answered(10.0)
    assert policy.choose()[0] is True  # how long an update takes is not known yet
    policy.undisturbed(0.5)
    assert policy.choose() == (False, "an answer is expected 20 updates late, within 50")
    for _ in range(3):
        policy.answered(60.0)
    assert policy.choose() == (True, "an answer is expected 120 updates late, above 50")
    for _ in range(5):
        policy.answered(1.0)
    assert policy.choose()[0] is False  # only the last five count


def test_waiting_ends_with_the_answer_and_says_how_long_it_took() -> None:
    calls: list[float] = []

    def wait(seconds: float) -> bool:
        calls.append(seconds)
        return len(calls) == 3

    seconds = wait_with_line(wait, "training waits")
    assert len(calls) == 3
    assert 0 <= seconds < 60
