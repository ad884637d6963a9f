"""Losses in buckets keep their extremes, their place and their gaps."""

from __future__ import annotations

import math
import random

import pytest

from opal.records.events import CheckRecord
from opal.report.losses import loss_curve, loss_windows


def check(first: int, *values: float | None) -> CheckRecord:
    return CheckRecord(update=first + len(values) - 1, first=first, values=values)


def test_few_losses_stay_one_by_one() -> None:
    curve = loss_curve([check(1, 3.0, 2.0), check(3, 1.5)])
    assert (curve.size, curve.first, curve.last, curve.count) == (1, 1, 3, 3)
    assert list(curve.indices) == [0, 1, 2]
    assert list(curve.means) == list(curve.lows) == list(curve.highs) == [3.0, 2.0, 1.5]


def test_buckets_hold_mean_least_and_greatest_across_checks() -> None:
    curve = loss_curve([check(1, 1.0, 2.0, 3.0), check(4, 9.0, 5.0, -1.0, 4.0)], most=2)
    assert curve.size == 4
    assert list(curve.means) == [15.0 / 4, 8.0 / 3]
    assert list(curve.lows) == [1.0, -1.0]
    assert list(curve.highs) == [9.0, 5.0]
    assert list(curve.counts) == [4, 3]


def test_extremes_of_many_losses_survive() -> None:
    rng = random.Random(0)
    values = [rng.random() for _ in range(10_000)]
    values[1234], values[8765] = 77.0, -5.0
    curve = loss_curve([check(start + 1, *values[start : start + 50]) for start in range(0, 10_000, 50)], most=100)
    assert len(curve.indices) == 100
    assert (max(curve.highs), min(curve.lows)) == (77.0, -5.0)
    assert curve.highs.index(77.0) == 1234 // 100
    assert curve.means[3] == pytest.approx(sum(values[300:400]) / 100)


def test_losses_that_are_not_finite_become_marks_and_not_numbers() -> None:
    curve = loss_curve([check(1, 1.0, math.nan, math.inf, None, 3.0)], most=1)
    assert (curve.bad, curve.bad_count, curve.missing, curve.count) == ((2, 3), 2, 1, 2)
    assert list(curve.means) == [2.0]


def test_marks_are_limited_and_all_are_counted() -> None:
    curve = loss_curve([check(1, *[math.nan] * 3_000)])
    assert (len(curve.bad), curve.bad_count, len(curve.indices)) == (1_000, 3_000, 0)


def test_losses_whose_sum_is_too_large_have_a_mean() -> None:
    curve = loss_curve([check(1, 1.5e308, 1.5e308)], most=1)
    assert curve.means[0] == pytest.approx(1.5e308)
    assert curve.bad == ()


def test_a_gap_leaves_no_buckets_however_wide_it_is() -> None:
    curve = loss_curve([check(1, 1.0, 2.0), check(10**9, 3.0)])
    assert list(curve.indices) == [0, 1, 10**9 - 1]


def test_two_stretches_meet_in_a_bucket() -> None:
    curve = loss_curve([check(1, 1.0, 2.0), check(4, 9.0)], most=1)
    assert curve.size == 3
    curve = loss_curve([check(1, 1.0), check(3, 4.0, 7.0)], most=1)
    assert list(curve.means) == [2.5, 7.0]
    assert list(curve.highs) == [4.0, 7.0]


def test_what_a_later_check_says_of_an_update_counts() -> None:
    curve = loss_curve([check(1, 1.0, 2.0, 3.0), check(4, 4.0), check(2, 20.0, 30.0)])
    assert list(curve.means) == [1.0, 20.0, 30.0]
    curve = loss_curve([check(1, 1.0, 2.0), check(8, 8.0), check(6, 60.0)])
    assert list(zip(curve.indices, curve.means, strict=True)) == [(0, 1.0), (1, 2.0), (5, 60.0)]


def test_no_losses_are_an_empty_curve() -> None:
    assert loss_curve([]).count == 0
    assert loss_curve([check(0, 1.0), check(10**15, 1.0)]).count == 0
    assert loss_windows(loss_curve([])) == ()


def test_windows_weigh_buckets_by_their_losses() -> None:
    curve = loss_curve([check(1, 1.0, 1.0, 4.0)], most=2)
    (window,) = loss_windows(curve, most=1)
    assert (window.first, window.last, window.low, window.high) == (1, 3, 1.0, 4.0)
    assert window.mean == pytest.approx(2.0)
