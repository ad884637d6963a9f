"""An analysis's reports as short tables: numbers over time, and the newest report whole where it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from opal.prompts.budget import cut, fit_lines, size
from opal.prompts.numbers import is_number, short
from opal.types import Report

_MAX_COLUMNS = 6
_MAX_ROWS = 24
_LEFT_OUT = "… {count} more lines in the inbox"


def flat_numbers(values: Mapping[str, Any]) -> dict[str, int | float]:
    """Dotted key → number for every number of a report, lists by position, in the report's order."""
    numbers: dict[str, int | float] = {}
    _flatten(values, "", numbers)
    return numbers


def _flatten(values: Mapping[str, Any], prefix: str, numbers: dict[str, int | float]) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, float):
            numbers[name] = value
        elif isinstance(value, Mapping):
            _flatten(value, f"{name}.", numbers)
        elif isinstance(value, list | tuple):
            _flatten({str(index): item for index, item in enumerate(value)}, f"{name}.", numbers)
        elif is_number(value):
            numbers[name] = value


def over_time(reports: Sequence[Report], limit: int) -> tuple[list[str], frozenset[str]]:
    """Numbers of the reports, a row each, at up to six updates including the newest; at most `limit` bytes.

    Those at the top come first, then those one level below, a whole dict at a time; those further inside only where
    there are no others. Returns the lines, and the dotted keys that are in them.
    """
    chosen = evenly(reports, _MAX_COLUMNS)
    if len(chosen) < 2:
        return [], frozenset()
    values = [flat_numbers(report.values) for report in chosen]
    title = " | ".join(["update", *(str(report.update) for report in chosen)])
    lines, shown = [title], set()
    room = limit - size(title) - 1
    for names in _dicts(chosen[-1].values) or [[name] for name in list(values[-1])[:_MAX_ROWS]]:
        rows = [" | ".join([name, *(short(v[name]) if name in v else "-" for v in values)]) for name in names]
        needed = size("\n".join(rows)) + 1
        if len(lines) - 1 + len(rows) <= _MAX_ROWS and needed <= room:
            lines += rows
            shown.update(names)
            room -= needed
    return (lines, frozenset(shown)) if shown else ([], frozenset())


def newest(report: Report, limit: int, shown: frozenset[str] = frozenset()) -> list[str]:
    """The newest report without the dotted keys in `shown`, whole where it fits into `limit` bytes, else its beginning.

    A dict of dicts with the same keys becomes a table; plain values share lines.
    """
    lines = _block(_without(report.values, shown, ""), "")
    if size("\n".join(lines)) < limit:
        return lines
    return fit_lines([cut(line, 300) for line in lines], limit, _LEFT_OUT)


def mean_report(reports: Sequence[Report]) -> Report:
    """The newest report, each number of it replaced by its mean over all reports that have it."""
    numbers = [flat_numbers(report.values) for report in reports]

    def averaged(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        means: dict[str, Any] = {}
        for key, value in values.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping):
                means[str(key)] = averaged(value, f"{name}.")
            elif is_number(value):
                means[str(key)] = fmean(found[name] for found in numbers if name in found)
            else:
                means[str(key)] = value
        return means

    return Report(update=reports[-1].update, values=averaged(reports[-1].values, ""))


def _dicts(values: Mapping[str, Any]) -> list[list[str]]:
    """Dotted keys of the numbers at the top, then of those in each dict one level below."""
    found = [[str(key) for key, value in values.items() if is_number(value)]]
    for key, below in values.items():
        if isinstance(below, Mapping):
            found.append([f"{key}.{name}" for name, value in below.items() if is_number(value)])
    return [names for names in found if names]


def _without(values: Mapping[str, Any], shown: frozenset[str], prefix: str) -> dict[str, Any]:
    """A report without some of its dotted keys, and without what is empty then."""
    left: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            below = _without(value, shown, f"{name}.")
            if below:
                left[key] = below
        elif name not in shown:
            left[key] = value
    return left


def evenly(items: Sequence[Report], count: int) -> list[Report]:
    """At most `count` of the items at even distances, the last one always among them."""
    if len(items) <= count:
        return list(items)
    step = (len(items) - 1) / (count - 1)
    return [items[round(index * step)] for index in range(count)]


def _block(values: Mapping[str, Any], indent: str) -> list[str]:
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    lines = _wrapped([f"{key} {_value(value)}" for key, value in plain.items()], indent)
    for key, value in values.items():
        if not isinstance(value, Mapping):
            continue
        table = _table(key, value, indent)
        if table:
            lines += table
        elif all(not isinstance(item, Mapping) for item in value.values()):
            lines += _wrapped([f"{name} {_value(item)}" for name, item in value.items()], indent, f"{key}: ")
        else:
            lines += [f"{indent}{key}:", *_block(value, indent + "  ")]
    return lines


def _table(key: str, values: Mapping[str, Any], indent: str) -> list[str]:
    """Rows for the entries of a dict of flat dicts that share most of their keys; nothing for other dicts."""
    rows = list(values.values())
    if len(rows) < 2 or not all(isinstance(row, Mapping) for row in rows):
        return []
    columns = list(dict.fromkeys(name for row in rows for name in row))
    filled = sum(len(row) for row in rows)
    nested = any(isinstance(item, Mapping) for row in rows for item in row.values())
    if nested or not columns or filled * 2 < len(columns) * len(rows):
        return []
    lines = [indent + " | ".join([str(key), *map(str, columns)])]
    for name, row in values.items():
        cells = (_value(row[column]) if column in row else "-" for column in columns)
        lines.append(indent + " | ".join([str(name), *cells]))
    return lines


def _wrapped(parts: list[str], indent: str, title: str = "", width: int = 110) -> list[str]:
    lines: list[str] = []
    line = indent + title
    for index, part in enumerate(parts):
        joined = part + ("," if index < len(parts) - 1 else "")
        if line.strip() and len(line) + len(joined) > width and line != indent + title:
            lines.append(line.rstrip())
            line = indent
        line += joined + " "
    return [*lines, line.rstrip()] if parts else []


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + " ".join(_value(item) for item in value) + "]"
    return short(value) if not isinstance(value, str) else cut(value, 400)
