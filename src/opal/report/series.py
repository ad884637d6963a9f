"""Curves other than the loss: what was recorded at checks, logged, or reported, thinned with their extremes kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opal.records.events import CheckRecord
from opal.report.wording import shortened
from opal.types import Metric, Report

MOST_POINTS = 2_000
MOST_SERIES = 12
LEAST_REPORTS = 3

_LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True)
class Series:
    """A named curve. `values` are None where something was recorded that is not finite.

    `recorded` and `bad` count the values and those that are not finite, before thinning, which keeps the extremes.
    `note` says what is special about the curve.
    """

    name: str
    updates: tuple[int, ...]
    values: tuple[float | None, ...]
    recorded: int
    bad: int = 0
    note: str = ""

    @property
    def finite(self) -> list[float]:
        """The values that are finite."""
        return [value for value in self.values if value is not None]


@dataclass(frozen=True, kw_only=True)
class SeriesList:
    """The curves that are drawn, and the names of those that are not."""

    drawn: tuple[Series, ...] = ()
    left_out: tuple[str, ...] = ()


def learning_rates(checks: Sequence[CheckRecord]) -> SeriesList:
    """The learning rate of each parameter group; groups with the same curve share one."""
    columns: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for check in checks:
        for group, rate in enumerate(check.learning_rates):
            columns[group].append((check.update, rate))
    alike: dict[tuple[tuple[int, float], ...], list[int]] = {}
    for group, points in columns.items():
        alike.setdefault(tuple(points), []).append(group)
    return _drawn({_groups(groups): list(points) for points, groups in alike.items()})


def update_times(checks: Sequence[CheckRecord]) -> SeriesList:
    """Milliseconds of an update, and of the updater in it."""
    whole = [(check.update, check.wall_ms) for check in checks if check.wall_ms is not None]
    updater = [(check.update, check.program_ms) for check in checks if check.program_ms is not None]
    return _drawn({"updater": updater, "whole update": whole})


def metric_series(metrics: Iterable[Metric]) -> SeriesList:
    """Development values first, then what the script logged."""
    points: dict[tuple[bool, str], list[tuple[int, float]]] = defaultdict(list)
    hidden: set[tuple[bool, str]] = set()
    for metric in metrics:
        key = (not metric.development, metric.name)
        points[key].append((metric.update, metric.value))
        if not metric.shown:
            hidden.add(key)
    ordered = sorted(points, key=lambda key: key[0])
    notes = {_metric_name(*key): "not shown to the agent" for key in hidden}
    return _drawn({_metric_name(*key): points[key] for key in ordered}, notes)


def report_series(reports: Iterable[Report]) -> SeriesList:
    """The numbers of the reports, those nested one level included, that at least three reports hold.

    Each part of the reports gives one after the other, so that a long part does not crowd out the rest.
    """
    parts: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for report in reports:
        for key, value in report.values.items():
            part = parts.setdefault(str(key), {})
            if _is_number(value):
                part.setdefault(str(key), []).append((report.update, value))
            elif isinstance(value, Mapping):
                for inner, number in value.items():
                    if _is_number(number):
                        part.setdefault(f"{key}.{inner}", []).append((report.update, number))
    kept = [[item for item in part.items() if len(item[1]) >= LEAST_REPORTS] for part in parts.values()]
    longest = max((len(part) for part in kept), default=0)
    turns = [part[turn] for turn in range(longest) for part in kept if turn < len(part)]
    chosen = {name for name, _ in turns[:MOST_SERIES]}
    names = [item for part in kept for item in part]  # drawn in the order of the reports
    return _drawn(dict([item for item in names if item[0] in chosen] + turns[MOST_SERIES:]))


def thin(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> list[tuple[int, float]]:
    """At most about `most` points: the least and the greatest value of each stretch, the first and the last point."""
    if len(points) <= most:
        return list(points)
    length = -(-2 * len(points) // most)
    kept = {0, len(points) - 1}
    for start in range(0, len(points), length):
        places = range(start, min(start + length, len(points)))
        finite = [place for place in places if math.isfinite(points[place][1])]
        if len(finite) < len(places):
            kept.add(next(place for place in places if not math.isfinite(points[place][1])))  # leaves a gap
        if finite:
            kept.add(min(finite, key=lambda place: points[place][1]))
            kept.add(max(finite, key=lambda place: points[place][1]))
    return [points[place] for place in sorted(kept)]


def _drawn(named: Mapping[str, Sequence[tuple[int, float]]], notes: Mapping[str, str] | None = None) -> SeriesList:
    items = [(name, points) for name, points in named.items() if points]
    return SeriesList(
        drawn=tuple(_series(name, points, (notes or {}).get(name, "")) for name, points in items[:MOST_SERIES]),
        left_out=tuple(shortened(name, _LONGEST_NAME) for name, _ in items[MOST_SERIES:]),
    )


def _series(name: str, points: Sequence[tuple[int, float]], note: str) -> Series:
    kept = thin(points)
    return Series(
        name=shortened(name, _LONGEST_NAME),
        updates=tuple(update for update, _ in kept),
        values=tuple(float(value) if math.isfinite(value) else None for _, value in kept),
        recorded=len(points),
        bad=sum(not math.isfinite(value) for _, value in points),
        note=note,
    )


def _metric_name(logged: bool, name: str) -> str:
    return name if logged else f"{name} (development)"


def _groups(groups: Sequence[int]) -> str:
    if len(groups) == 1:
        return f"group {groups[0]}"
    if len(groups) > 3 and groups[-1] - groups[0] == len(groups) - 1:
        return f"groups {groups[0]} to {groups[-1]}"
    return "groups " + ", ".join(str(group) for group in groups)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != math.inf
