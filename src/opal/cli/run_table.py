"""What `opal show` prints: the head of a run, one line a decision, where the final program is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opal.cli.terminal import dollars, duration, fit, one_line, output_width, pad, paint
from opal.records.decision_rows import DecisionRow, decision_rows, last_update
from opal.records.events import ProgramReverted, RecordsLost, RunEnded, RunStarted
from opal.records.reader import RunRecord, read_run
from opal.records.run_info import chosen_run, seconds_since_1970
from opal.records.strict_json import encode

_STATES = {
    "running": "running",
    "killed": "unfinished: its process is gone, it was killed or crashed",
    "unknown": "unfinished: it runs elsewhere, or was killed",
}
_COLOURS = {"applied": "green", "refused": "red", "unanswered": "yellow", "late": "yellow", "open": "cyan"}
_TITLES = ("#", "asked", "outcome", "time", "cost", "rationale")


def print_run(run: Path | None, *, as_json: bool) -> None:
    """Print a run, the latest one where none is named, for a person or as strict JSON.

    Raises:
        RunFolderError: it is no run, or damaged.
    """
    record = read_run(chosen_run(run).root)
    rows = decision_rows(record.events)
    if as_json:
        print(encode(facts(record, rows)).decode())
        return
    for line in [*_head(record), "", *_table(rows), "", *_foot(record)]:
        print(line)


def facts(record: RunRecord, rows: Sequence[DecisionRow]) -> dict[str, Any]:
    """Everything that `show` knows, for `--json`."""
    started = _last(record, RunStarted)
    ended = _last(record, RunEnded)
    final = record.final_version
    return {
        "run": str(record.folder.root),
        "run_id": record.info.run_id,
        "goal": record.info.goal,
        "state": record.state,
        "outcome": ended.outcome if ended else record.info.outcome,
        "started": record.info.started,
        "ended": record.info.ended,
        "update": _update(record),
        "last_loss": _last_loss(record),
        "total_steps": record.info.total_steps,
        "backend": started.backend if started else None,
        "scheduled": len(started.decision_updates) if started else None,
        "agent_wait_seconds": ended.agent_wait_seconds if ended else None,
        "cost_usd": _cost(rows),
        "final_version": final,
        "final_program": str(record.folder.program(final)) if final else None,
        "decisions": [asdict(row) for row in rows],
        "reverts": [
            {"update": event.update, "version": event.version, "goes_on_with": event.goes_on_with, "why": event.why}
            for event in record.events
            if isinstance(event, ProgramReverted)
        ],
        "records_lost": sum(event.count for event in record.events if isinstance(event, RecordsLost)),
        "torn_lines": record.torn_lines,
        "unknown_events": record.unknown_events,
        "versions": dict(record.info.versions),
        "inactive": list(record.info.inactive),
    }


def _head(record: RunRecord) -> list[str]:
    started, ended = _last(record, RunStarted), _last(record, RunEnded)
    width = output_width()
    state = (ended.outcome if ended else record.info.outcome) or "ended"
    if record.state != "finished":
        state = _STATES[record.state]
    backend = f" · {one_line(started.backend)}" if started else ""
    progress = f"{_update(record)} of {record.info.total_steps} updates"
    began, end = seconds_since_1970(record.info.started), seconds_since_1970(record.info.ended)
    took = f" · {duration(end - began)}" if began is not None and end is not None else ""
    loss = _last_loss(record)
    measured = "" if loss is None else f" · loss {loss:.4g}"
    title = f"{one_line(record.info.run_id)} · {progress}{measured}{backend} · {state}{took}"
    lines = [paint(fit(title, width), "bold")]
    if record.info.goal:
        lines.append(fit(one_line(record.info.goal), width))
    return lines


def _table(rows: Sequence[DecisionRow]) -> list[str]:
    """The decisions as columns; the last one takes what is left of the line."""
    if not rows:
        return ["no decision was asked yet"]
    cells = [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in (_TITLES, *cells)) for column in range(5)]
    rest = max(output_width() - sum(widths) - 2 * len(widths), 12)
    lines = [paint(_line(_TITLES, widths, rest, ""), "dim")]
    for row, line in zip(rows, cells, strict=True):
        colour = "yellow" if row.reverted_at is not None else _COLOURS.get(row.outcome, "")
        lines.append(_line(line, widths, rest, colour))
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], rest: int, colour: str) -> str:
    number, asked, outcome, took, cost = (
        pad(cell, width, right=column in (0, 1, 3, 4))
        for column, (cell, width) in enumerate(zip(cells[:5], widths, strict=True))
    )
    return "  ".join([number, asked, paint(outcome, colour), took, cost, fit(cells[5], rest)]).rstrip()


def _cells(row: DecisionRow) -> tuple[str, ...]:
    outcome = row.outcome + (f" {row.version}" if row.version else "")
    if row.reverted_at is not None:
        outcome += f", reverted @{row.reverted_at}"
    text = one_line(row.rationale)
    if row.note:
        text = f"[{one_line(row.note)}] {text}"
    return (str(row.number), str(row.asked_at), outcome, duration(row.seconds), dollars(row.cost_usd), text)


def _foot(record: RunRecord) -> list[str]:
    lines = []
    ended = _last(record, RunEnded)
    if ended is not None:
        waited = f"training waited {duration(ended.agent_wait_seconds)} for the agent"
        lines.append(waited if ended.cost_usd is None else f"{waited}, cost {dollars(ended.cost_usd)}")
    lost = [event for event in record.events if isinstance(event, RecordsLost)]
    if lost:
        reasons = "; ".join(dict.fromkeys(event.why for event in lost))
        lines.append(paint(f"gap in the records: {sum(event.count for event in lost)} lost ({reasons})", "yellow"))
    if record.torn_lines or record.unknown_events:
        skipped = f"skipped in events.jsonl: {record.torn_lines} torn lines, {record.unknown_events} of unknown kinds"
        lines.append(paint(skipped, "yellow"))
    final = record.final_version
    if final is None:
        lines.append("final program: not named yet" if record.state == "running" else "final program: not recorded")
    else:
        name = "final program" if record.state == "finished" else "program in force"
        lines.append(f"{name}: {record.folder.program(final)}")
    return lines


def _update(record: RunRecord) -> int:
    """The newest update that was recorded."""
    check = record.last_check
    return max(last_update(record.events), check.update if check else 0)


def _last_loss(record: RunRecord) -> float | None:
    """The newest loss that was given, at the newest check."""
    values = record.last_check.values if record.last_check else ()
    return next((value for value in reversed(values) if value is not None), None)


def _cost(rows: Sequence[DecisionRow]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    return sum(known) if known else None


def _last(record: RunRecord, kind: type[Any]) -> Any:
    """The last event of a kind, or None."""
    return next((event for event in reversed(record.events) if isinstance(event, kind)), None)
