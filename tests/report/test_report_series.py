"""Curves of rates, metrics and reports: which are drawn, and that thinning keeps what stands out."""

from __future__ import annotations

import math

from opal.records.events import CheckRecord
from opal.report.series import learning_rates, metric_series, report_series, thin, update_times
from opal.types import Metric, Report


def test_thinning_keeps_the_extremes_the_ends_and_one_gap() -> None:
    points = [(update, float(update % 7)) for update in range(10_000)]
    points[4_321] = (4_321, 50.0)
    points[5_432] = (5_432, -50.0)
    points[6_000] = (6_000, math.nan)
    kept = thin(points, most=100)
    assert len(kept) <= 104
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert points[4_321] in kept
    assert points[5_432] in kept
    assert sum(math.isnan(value) for _, value in kept) == 1


def test_groups_with_the_same_rates_share_a_curve() -> None:
    checks = [
        CheckRecord(update=update, first=update, values=(1.0,), learning_rates=(rate, rate, 0.5))
        for update, rate in ((50, 0.1), (100, 0.2))
    ]
    series = learning_rates(checks).drawn
    assert [(curve.name, curve.values) for curve in series] == [("groups 0, 1", (0.1, 0.2)), ("group 2", (0.5, 0.5))]


def test_times_that_were_not_measured_are_left_out() -> None:
    checks = [CheckRecord(update=1, first=1, values=(1.0,), program_ms=4.0), CheckRecord(update=2, first=2, values=())]
    (series,) = update_times(checks).drawn
    assert (series.name, series.updates, series.values) == ("updater", (1,), (4.0,))


def test_development_values_come_first_and_hidden_ones_are_marked() -> None:
    metrics = [
        Metric(update=1, name="loss", value=1.0, shown=False),
        Metric(update=1, name="loss", value=2.0, shown=True, development=True),
        Metric(update=2, name="loss", value=math.inf, shown=True, development=True),
    ]
    development, logged = metric_series(metrics).drawn
    assert (development.name, development.values, development.bad) == ("loss (development)", (2.0, None), 1)
    assert development.note == ""
    assert (logged.name, logged.note) == ("loss", "not shown to the agent")


def test_reports_give_numbers_nested_one_level_that_three_of_them_hold() -> None:
    reports = [
        Report(
            update=update,
            values={
                "plain": update,
                "part": {"a": 1.0, "deep": {"b": 1.0}, "text": "x", "flag": True},
                **({"rare": 1.0} if update < 3 else {}),
            },
        )
        for update in (1, 2, 3)
    ]
    assert [curve.name for curve in report_series(reports).drawn] == ["plain", "part.a"]


def test_a_long_part_of_the_reports_does_not_crowd_out_the_others() -> None:
    values = {"long": {f"k{place}": 1.0 for place in range(30)}, "loss": {"mean": 1.0, "slope": 2.0}}
    series = report_series([Report(update=update, values=values) for update in (1, 2, 3)])
    names = [curve.name for curve in series.drawn]
    assert len(names) == 12
    assert {"loss.mean", "loss.slope"} <= set(names)
    assert len(series.left_out) == 20
