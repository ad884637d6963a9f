"""What became of every decision, put together from the events of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from opal.records.events import (
    AnyEvent,
    DecisionAnswered,
    DecisionAsked,
    DecisionUnanswered,
    ProgramApplied,
    ProgramFailed,
    ProgramRefused,
    ProgramReverted,
    RunEnded,
    RunStarted,
)

RowOutcome: TypeAlias = Literal["open", "kept", "answered", "applied", "refused", "unanswered", "late"]


@dataclass(frozen=True, kw_only=True)
class DecisionRow:
    """One decision. `outcome` is `open` until an answer is there, `answered` until an edit takes over or is refused.

    `late` is an edit that the end of the run came before. `reverted_at` is the update at which its program was put
    back, `note` what went wrong.
    """

    number: int
    asked_at: int
    asked_time: float
    reasons: tuple[str, ...] = ()
    waits: bool = True
    outcome: RowOutcome = "open"
    seconds: float | None = None
    cost_usd: float | None = None
    rationale: str = ""
    version: str | None = None
    effective_from: int | None = None
    reverted_at: int | None = None
    note: str = ""


def decision_rows(events: Sequence[AnyEvent]) -> tuple[DecisionRow, ...]:
    """One row a decision, in the order in which they were asked."""
    rows: dict[int, DecisionRow] = {}
    for event in events:
        if isinstance(event, DecisionAsked):
            rows[event.decision] = DecisionRow(
                number=event.decision,
                asked_at=event.update,
                asked_time=event.time,
                reasons=event.reasons,
                waits=event.waits,
            )
        elif isinstance(event, DecisionAnswered | DecisionUnanswered | ProgramApplied | ProgramRefused):
            row = rows.get(event.decision) or DecisionRow(
                number=event.decision, asked_at=event.update, asked_time=event.time
            )
            rows[event.decision] = _went_on(row, event)
        elif isinstance(event, ProgramFailed | ProgramReverted):
            _mark(rows, event)
        elif isinstance(event, RunEnded):
            for number, row in rows.items():
                if row.outcome in ("open", "answered"):
                    ended: RowOutcome = "unanswered" if row.outcome == "open" else "late"
                    rows[number] = replace(row, outcome=ended, note=row.note or "the run ended before")
    return tuple(rows.values())


def open_decision(events: Sequence[AnyEvent]) -> DecisionRow | None:
    """The decision that waits for an answer, if there is one."""
    rows = decision_rows(events)
    return rows[-1] if rows and rows[-1].outcome == "open" else None


def last_update(events: Sequence[AnyEvent]) -> int:
    """The latest update that an event speaks of; after a resume, of the events since then."""
    latest = 0
    for event in events:
        latest = event.update if isinstance(event, RunStarted) else max(latest, event.update)
    return latest


def _went_on(
    row: DecisionRow, event: DecisionAnswered | DecisionUnanswered | ProgramApplied | ProgramRefused
) -> DecisionRow:
    if isinstance(event, DecisionAnswered):
        # the answer's event may be written after what became of it
        settled = row.outcome if row.outcome != "open" else ("answered" if event.edited else "kept")
        return replace(row, outcome=settled, seconds=event.seconds, cost_usd=event.cost_usd, rationale=event.text)
    if isinstance(event, DecisionUnanswered):
        return replace(row, outcome="unanswered", seconds=event.seconds, note=event.why)
    if isinstance(event, ProgramApplied):
        return replace(row, outcome="applied", version=event.version, effective_from=event.effective_from)
    return replace(row, outcome="refused", version=event.version, note=f"{event.stage}: {event.sentence}")


def _mark(rows: dict[int, DecisionRow], event: ProgramFailed | ProgramReverted) -> None:
    """Mark the decision whose program failed or was put back."""
    for number, row in rows.items():
        if row.outcome == "applied" and row.version == event.version:
            if isinstance(event, ProgramFailed):
                rows[number] = replace(row, note=f"failed at update {event.update}: {event.error}: {event.message}")
            else:
                rows[number] = replace(row, reverted_at=event.update, note=row.note or event.why)
