"""When scheduled decisions are asked, and what the cap leaves room for."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opal.config import Schedule
from opal.decisions.schedule import Plan, default_cap, may_ask, plan
from opal.errors import ArgumentValueError

totals = st.integers(1, 5_000)
intervals = st.integers(1, 120)
counts = st.integers(0, 60)


@st.composite
def segments(draw: st.DrawFn) -> tuple[tuple[float, int], ...]:
    ends = sorted(draw(st.sets(st.integers(1, 100), min_size=1, max_size=4)))
    return tuple((end / 100, draw(st.integers(0, 25))) for end in ends)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, int, int | None, Schedule]:
    total = draw(totals)
    updates = st.lists(st.integers(1, total), min_size=1, max_size=40).map(tuple)
    schedule: Schedule = draw(st.one_of(st.sampled_from(["front", "uniform"]), segments(), updates))
    decisions = draw(st.none() | counts) if isinstance(schedule, str) else None
    return total, draw(intervals), decisions, schedule


# ── Examples by hand ─────────────────────────────────────────────────────────────────────────────────────────────


def test_front_puts_a_fifth_into_the_first_twentieth_and_the_rest_over_the_run() -> None:
    # 2 until update 20: 10, 20; 6 over the other 380, each 380 / 7 = 54.29 on: 74.3, 128.6, 182.9, 237.1, 291.4, 345.7
    expected = (10, 20, 80, 130, 190, 240, 300, 350)
    assert plan(400, 10, 8, "front") == Plan(updates=expected, asked_for=8, dropped=0, merged=0)


def test_uniform_asks_at_equal_distances_and_the_last_one_falls_away() -> None:
    expected = (50, 100, 150, 200, 250, 300, 350)  # and 400, where the run ends
    assert plan(400, 10, 8, "uniform") == Plan(updates=expected, asked_for=8, dropped=1, merged=0)


def test_uniform_rounds_its_distance_down() -> None:
    # 400 // 7 = 57: 57, 114, 171, 228, 285, 342, 399
    expected = (60, 120, 180, 230, 290, 350)
    assert plan(400, 10, 7, "uniform") == Plan(updates=expected, asked_for=7, dropped=1, merged=0)


def test_a_segment_ends_with_a_decision_and_the_one_that_ends_the_run_does_not() -> None:
    # 4 in 100 updates: 25, 50, 75, 100; 3 in the other 300 with four equal gaps: 175, 250, 325
    expected = (30, 50, 80, 100, 180, 250, 330)
    assert plan(400, 10, None, ((0.25, 4), (1.0, 3))) == Plan(updates=expected, asked_for=7, dropped=0, merged=0)


def test_after_the_last_segment_nothing_is_asked() -> None:
    assert plan(400, 10, None, ((0.5, 2),)).updates == (100, 200)


def test_an_empty_segment_keeps_its_part_of_the_run_free() -> None:
    assert plan(400, 10, None, ((0.25, 0), (0.75, 2))).updates == (200, 300)


def test_an_empty_segment_at_the_end_adds_nothing() -> None:
    assert plan(400, 10, None, ((0.25, 2), (1.0, 0))) == Plan(updates=(50, 100), asked_for=2, dropped=0, merged=0)


def test_given_updates_move_up_to_checks_merge_and_fall_away_at_the_end() -> None:
    # 5 and 10 meet at 10, 391 and 400 at 400, which is in the last ten; 390 is not
    expected = Plan(updates=(10, 20, 390), asked_for=6, dropped=1, merged=2)
    assert plan(400, 10, None, (400, 5, 10, 11, 390, 391)) == expected


def test_a_decision_moved_beyond_the_run_falls_away() -> None:
    assert plan(95, 10, None, (85, 86, 95)) == Plan(updates=(), asked_for=3, dropped=2, merged=1)


def test_the_last_updates_begin_behind_total_minus_every() -> None:
    assert plan(95, 5, None, (90, 91)) == Plan(updates=(90,), asked_for=2, dropped=1, merged=0)


def test_a_fraction_means_what_was_written() -> None:
    assert 0.07 * 100 > 7  # in floating point; rounded up this would be update 8
    assert plan(100, 1, None, ((0.07, 1),)).updates == (7,)
    assert plan(30, 1, None, ((0.1 + 0.2, 1),)).updates == (9,)
    assert plan(300, 1, None, ((1 / 3, 1),)).updates == (100,)


def test_without_a_count_fifty_are_asked_for() -> None:
    for schedule in ("front", "uniform"):
        assert plan(10_000, 10, None, schedule) == plan(10_000, 10, 50, schedule)
    assert plan(10_000, 10, None, "front").asked_for == 50


def test_one_decision_is_early_and_none_is_none() -> None:
    assert plan(1_000, 10, 1, "front").updates == (50,)
    for schedule in ("front", "uniform"):
        assert plan(1_000, 10, 0, schedule) == Plan(updates=(), asked_for=0, dropped=0, merged=0)


def test_more_uniform_decisions_than_updates_meet_at_every_check() -> None:
    # one at each update: three at 3, three at 6, three at 9, where the five meet that would lie behind the run
    assert plan(9, 3, 14, "uniform") == Plan(updates=(3, 6), asked_for=14, dropped=1, merged=11)


def test_a_list_fixes_the_count() -> None:
    assert plan(400, 10, 3, (100, 200, 300)).asked_for == 3
    assert plan(400, 10, 4, ((0.25, 1), (1.0, 3))).asked_for == 4
    for schedule in ((100, 200, 300), ((0.25, 1), (1.0, 2))):
        with pytest.raises(ArgumentValueError, match=r"decisions=5: .* has 3 decisions"):
            plan(400, 10, 5, schedule)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 10, 8, "front"), "total_steps"),
        ((400, 0, 8, "front"), "every"),
        ((400, 10, -1, "front"), "decisions"),
        ((400, 10, 8, "back"), "schedule"),
        ((400, 10, None, (0, 100)), "schedule"),
        ((400, 10, None, (100, 401)), "schedule"),
        ((400, 10, None, ((0.5, 1), (0.5, 1))), "schedule"),
        ((400, 10, None, ((0.0, 1),)), "schedule"),
        ((400, 10, None, ((1.5, 1),)), "schedule"),
        ((400, 10, None, ((0.5, -1),)), "schedule"),
    ],
)
def test_a_wrong_argument_is_named(arguments: tuple[int, int, int | None, Schedule], name: str) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        plan(*arguments)
    assert caught.value.argument == name


# ── What holds for every run ─────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None)
@given(runs())
def test_updates_are_rising_checks_before_the_last_ones(run: tuple[int, int, int | None, Schedule]) -> None:
    total, every, _, _ = run
    updates = plan(*run).updates
    assert list(updates) == sorted(set(updates))
    assert all(update % every == 0 and every <= update <= total - every for update in updates)


@settings(deadline=None)
@given(runs())
def test_no_decision_is_lost_from_the_count(run: tuple[int, int, int | None, Schedule]) -> None:
    found = plan(*run)
    assert found.asked_for == len(found.updates) + found.dropped + found.merged
    assert min(found.dropped, found.merged) >= 0
    assert (
        found.dropped <= 2
    )  # no more than two checks lie in the last `every` updates, the one behind the end included


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 50))
def test_front_asks_a_fifth_by_the_first_twentieth(decisions: int, every: int) -> None:
    total = 20 * every * 60  # so long that nothing merges: a check for every decision of the first part
    updates = plan(total, every, decisions, "front").updates
    assert len(updates) == decisions
    first = sum(update <= total // 20 for update in updates)
    assert first == max(1, round(decisions / 5))
    assert total // 20 in updates


@settings(deadline=None)
@given(totals, st.integers(1, 60))
def test_the_segment_that_ends_the_run_leaves_room_behind_its_last_decision(total: int, count: int) -> None:
    found = plan(total * (count + 1), 1, None, ((1.0, count),))
    assert found.updates == tuple(total * number for number in range(1, count + 1))


@settings(deadline=None)
@given(segments(), st.integers(1, 50))
def test_every_segment_has_its_count_inside_its_bounds(parts: tuple[tuple[float, int], ...], scale: int) -> None:
    total = 100 * 26 * scale  # room for every decision of a hundredth of the run
    updates = plan(total, 1, None, parts).updates
    start = Fraction(0)
    for end, count in parts:
        stop = total * Fraction(round(end * 100), 100)
        assert sum(start < update <= stop for update in updates) == count
        if count and end < 1:
            assert stop in updates
        start = stop


@settings(deadline=None)
@given(totals, intervals, counts)
def test_asking_for_more_with_front_never_gives_fewer(total: int, every: int, decisions: int) -> None:
    fewer, more = (plan(total, every, count, "front").updates for count in (decisions, decisions + 1))
    assert len(fewer) <= len(more)


@settings(deadline=None)
@given(totals, intervals, counts)
def test_asking_for_more_with_uniform_never_gives_fewer(total: int, every: int, decisions: int) -> None:
    decisions = min(decisions, total // every - 1)  # a check for each: then the distance is at least `every`
    if decisions >= 0:
        fewer, more = (plan(total, every, count, "uniform").updates for count in (decisions, decisions + 1))
        assert len(fewer) <= len(more)


@settings(deadline=None)
@given(runs(), st.randoms())
def test_the_order_of_given_updates_does_not_matter(run: tuple[int, int, int | None, Schedule], random: object) -> None:
    total, every, _, schedule = run
    if not isinstance(schedule, str) and all(isinstance(item, int) for item in schedule):
        mixed = list(schedule)
        random.shuffle(mixed)  # type: ignore[attr-defined]
        assert plan(total, every, None, tuple(mixed)) == plan(total, every, None, schedule)  # type: ignore[arg-type]


# ── The cap ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_cap_is_twice_what_remains() -> None:
    found = plan(400, 10, 8, "uniform")
    assert (len(found.updates), default_cap(found)) == (7, 14)


@pytest.mark.parametrize(
    ("asked", "cap", "to_come", "unscheduled", "allowed"),
    [
        (0, 4, 3, True, True),  # one now and three to come
        (0, 4, 4, True, False),
        (1, 4, 3, True, False),
        (3, 4, 0, True, True),
        (4, 4, 0, True, False),
        (0, 4, 9, False, True),  # a scheduled one is asked as long as anything is left
        (3, 4, 9, False, True),
        (4, 4, 9, False, False),
        (0, 0, 0, False, False),
    ],
)
def test_wake_ups_leave_room_for_scheduled_decisions(
    asked: int, cap: int, to_come: int, unscheduled: bool, allowed: bool
) -> None:
    assert may_ask(asked, cap, to_come, unscheduled) is allowed


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=60), st.integers(0, 30))
def test_whatever_wakes_every_scheduled_decision_within_the_cap_is_asked(wakes: list[bool], cap: int) -> None:
    """`wakes` is what falls due: true for a wake-up, false for a scheduled decision."""
    to_come = scheduled = wakes.count(False)
    asked = answered = 0
    for wake in wakes:
        to_come -= not wake
        if may_ask(asked, cap, to_come, wake):
            asked += 1
            answered += not wake
    assert answered == min(scheduled, cap)
    assert asked <= cap
