"""When scheduled decisions are asked: pure functions from the arguments of a run to rising update numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import cast

from opal.config import Schedule
from opal.errors import ArgumentValueError

DEFAULT_DECISIONS = 50

_FRONT_END = 0.05
_FRONT_SHARE = 5
_FINEST = 10**12


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The scheduled decisions of a run; `asked_for == len(updates) + dropped + merged`."""

    updates: tuple[int, ...]
    """Updates at which a decision is due: checks, rising."""
    asked_for: int
    dropped: int
    """How many fell away because they lie in the last `every` updates."""
    merged: int
    """How many fell away because an earlier one is due at the same check."""


def plan(total_steps: int, every: int, decisions: int | None, schedule: Schedule) -> Plan:
    """The checks at which a scheduled decision is due.

    Args:
        total_steps: updates in the run.
        every: updates between checks; decisions happen at its multiples.
        decisions: how many to spread; `None` means 50, or as many as a list has.
        schedule: `"front"`, `"uniform"`, segments (end as a fraction in (0, 1], count) with rising ends, or updates.

    Each decision is rounded up to the next check, equal ones merge, and those in the last `every` updates are dropped.

    Raises:
        ArgumentValueError: a number out of its range, an unknown name, or a `decisions` that a list contradicts.
    """
    _check_numbers(total_steps, every, decisions)
    points = _points(total_steps, decisions, schedule)
    checks = sorted({_next_check(point, every) for point in points})
    updates = tuple(check for check in checks if check <= total_steps - every)
    return Plan(
        updates=updates,
        asked_for=len(points),
        dropped=len(checks) - len(updates),
        merged=len(points) - len(checks),
    )


def default_cap(plan: Plan) -> int:
    """`max_decisions` where the person gave none: twice the scheduled ones that remain."""
    return 2 * len(plan.updates)


def may_ask(asked: int, cap: int, scheduled_to_come: int, unscheduled: bool) -> bool:
    """Whether one more decision is within the cap.

    Args:
        asked: decisions asked so far.
        cap: `max_decisions`.
        scheduled_to_come: scheduled decisions after this one.
        unscheduled: nothing scheduled is due now (a wake-up, a failure, a person); it leaves room for those to come.
    """
    room = cap - asked
    return room > scheduled_to_come if unscheduled else room > 0


def _points(total_steps: int, decisions: int | None, schedule: Schedule) -> list[Fraction]:
    """Where decisions are wanted, exactly, before they are moved to checks."""
    if isinstance(schedule, str):
        count = DEFAULT_DECISIONS if decisions is None else decisions
        if schedule == "front":
            first = min(count, max(1, round(count / _FRONT_SHARE)))
            return _in_segments(total_steps, [(_FRONT_END, first), (1.0, count - first)])
        if schedule == "uniform":
            distance = max(1, total_steps // max(1, count))
            return [Fraction(min(distance * number, total_steps)) for number in range(1, count + 1)]
        raise ArgumentValueError("schedule", schedule, "allowed are 'front', 'uniform', segments, update numbers")
    if all(isinstance(item, int) for item in schedule):
        points = _at_updates(total_steps, cast("Sequence[int]", schedule))
    else:
        segments = cast("Sequence[tuple[float, int]]", schedule)
        _check_segments(segments)
        points = _in_segments(total_steps, segments)
    if decisions is not None and decisions != len(points):
        allowed = (
            f"the schedule that was given has {len(points)} decisions; leave the argument out, or give that number"
        )
        raise ArgumentValueError("decisions", decisions, allowed)
    return points


def _in_segments(total_steps: int, segments: Sequence[tuple[float, int]]) -> list[Fraction]:
    """Equal distances inside each segment: the last decision on its end, but not on the end of the run."""
    points: list[Fraction] = []
    start = Fraction(0)
    for end, count in segments:
        stop = total_steps * _as_written(end)
        distance = (stop - start) / max(1, count + 1 if end == 1 else count)
        points += [start + distance * number for number in range(1, count + 1)]
        start = stop
    return points


def _as_written(end: float) -> Fraction:
    """The fraction that a person meant: 0.07 is 7/100, so that 0.07 of 100 updates is 7 and not a little more."""
    return Fraction(end).limit_denominator(_FINEST)


def _at_updates(total_steps: int, updates: Sequence[int]) -> list[Fraction]:
    if not all(1 <= update <= total_steps for update in updates):
        raise ArgumentValueError("schedule", list(updates), f"updates lie within 1 … total_steps ({total_steps})")
    return [Fraction(update) for update in updates]


def _next_check(point: Fraction, every: int) -> int:
    """The first multiple of `every`, and at least one, that is not before `point`."""
    return max(1, -(-point.numerator // (point.denominator * every))) * every


def _check_numbers(total_steps: int, every: int, decisions: int | None) -> None:
    for name, value, low in (("total_steps", total_steps, 1), ("every", every, 1), ("decisions", decisions, 0)):
        if value is not None and value < low:
            raise ArgumentValueError(name, value, f"a whole number of at least {low}")


def _check_segments(segments: Sequence[tuple[float, int]]) -> None:
    ends = [end for end, _ in segments]
    if not all(0 < end <= 1 for end in ends) or any(count < 0 for _, count in segments):
        raise ArgumentValueError("schedule", list(segments), "a segment's end lies in (0, 1], its count is 0 or more")
    if any(later <= earlier for earlier, later in pairwise(ends)):
        raise ArgumentValueError("schedule", list(segments), "the ends of the segments rise")
