"""The inbox: the complete data behind each message, and the numbers of all reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from opal.prompts.reports_csv import reports_csv
from opal.records.run_folder import RunFolder
from opal.records.strict_json import encode
from opal.types import DecisionRequest, Report


def write_inbox(
    folder: RunFolder, request: DecisionRequest, losses: Sequence[tuple[int, float]], reports: Sequence[Report]
) -> None:
    """Write `inbox/decision_NNN.json` and `inbox/reports.csv`, each replaced whole.

    `losses` are pairs (update, loss) of all updates since the previous decision, `reports` all reports so far, of which
    the newest 400 count; the decision's file has those since the previous decision. The closing request, number 0, goes
    to `closing.json`.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.inbox.mkdir(parents=True, exist_ok=True)
    since = 0 if request.losses.before is None else request.losses.before.update
    new = tuple(report for report in request.reports if report.update > since)
    data = asdict(replace(request, reports=new or request.reports[-1:]))
    data["losses"]["all"] = [[update, loss] for update, loss in losses]
    _replace(inbox_file(folder, request.number), encode(data))
    _replace(folder.inbox / "reports.csv", reports_csv(reports).encode("utf-8", "replace"))


def inbox_file(folder: RunFolder, number: int) -> Path:
    """The file of one decision; of the closing message for number 0."""
    return folder.inbox / (f"decision_{number:03d}.json" if number else "closing.json")


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole: nobody sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, path)
