"""`reports.csv`: the numbers of all reports so far, a row each."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from opal.prompts.report_text import flat_numbers
from opal.types import Report

MAX_REPORTS = 400


@dataclass
class _Row:
    """A report taken apart, and its line for the columns that it was last written with."""

    report: Report
    numbers: dict[str, int | float]
    names: tuple[str, ...]
    columns: tuple[str, ...] = ()
    line: str = ""


# A report is taken apart once, though the table is written whole for every decision. The key is the report's `id`,
# which stands for it as long as the row keeps the report.
_rows: dict[int, _Row] = {}


def reports_csv(reports: Sequence[Report]) -> str:
    """A row for each of the newest 400 reports, a column for each number in any of them, nested keys dotted."""
    global _rows
    newest = reports[-MAX_REPORTS:]
    known = _rows
    rows = [known.get(id(report)) or _taken_apart(report) for report in newest]
    _rows = {id(row.report): row for row in rows}
    # Most reports share their names: the union is taken over what differs.
    columns = tuple(dict.fromkeys(["update", *(name for names in dict.fromkeys(row.names for row in rows)
                                               for name in names)]))  # fmt: skip
    for row in rows:
        if row.columns != columns:
            row.columns = columns
            row.line = _line([row.numbers.get(name, "") for name in columns])
    return _line(columns) + "".join([row.line for row in rows])


def _taken_apart(report: Report) -> _Row:
    """A report's numbers; one that is itself called `update` makes way for the report's update."""
    numbers = flat_numbers(report.values)
    if "update" in numbers:
        numbers["report.update"] = numbers.pop("update")
    numbers = {"update": report.update, **numbers}
    return _Row(report=report, numbers=numbers, names=tuple(numbers))


def _line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
