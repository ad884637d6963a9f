"""What the agent did in a run, and why, as its records tell it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from opal.records.decision_rows import DecisionRow, decision_rows
from opal.records.reader import read_run

LONGEST_RATIONALE = 1500


def describe_changes(run: Path, width: int = 100) -> list[str]:
    """Lines for a terminal: a paragraph a decision, with what became of it and the agent's own words.

    Raises:
        RunFolderError: the folder is no run.
    """
    rows = decision_rows(read_run(run).events)
    applied = sum(row.outcome == "applied" for row in rows)
    lines = [f"What the agent did in {len(rows)} decisions ({applied} applied), in its own words:"]
    for row in rows:
        lines += _paragraph(row, width)
    return lines


def _paragraph(row: DecisionRow, width: int) -> Iterator[str]:
    yield ""
    yield f"Decision {row.number}, at update {row.asked_at}: {_outcome(row)}"
    shown = " ".join("".join(char for char in row.rationale if char.isprintable() or char.isspace()).split())
    yield from textwrap.wrap(
        textwrap.shorten(shown, LONGEST_RATIONALE, placeholder=" …"), width, initial_indent="  ", subsequent_indent="  "
    )


def _outcome(row: DecisionRow) -> str:
    outcome: str = "nothing changed" if row.outcome == "kept" else row.outcome
    if row.outcome == "applied":
        outcome = f"{row.version} in force from update {row.effective_from}"
    if row.reverted_at is not None:
        outcome += f", taken back at update {row.reverted_at}"
    return f"{outcome} ({row.note})" if row.note else outcome
