"""Everything that the page shows, read from a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import msgspec

from opal.records.decision_rows import DecisionRow, decision_rows, last_update
from opal.records.events import DecisionAsked, Event, ProgramApplied, RunEnded, RunStarted
from opal.records.reader import RunRecord
from opal.records.run_info import seconds_since_1970
from opal.report.banners import Banner, banners
from opal.report.decision_data import DecisionData, decision_data
from opal.report.losses import LossCurve, loss_curve
from opal.report.series import SeriesList, learning_rates, metric_series, report_series, update_times
from opal.report.wording import NOT_RECORDED, clean, count, dollars, duration, number, shortened, value_text

_LONGEST_FACT = 2_000
_LONGEST_GOAL = 600
_LABELS = {
    "goal": "Goal",
    "command": "Command",
    "started": "Started",
    "ended": "Ended",
    "outcome": "Outcome",
    "versions": "Versions",
    "hardware": "Hardware",
    "host": "Host",
    "model": "Model",
    "optimizers": "Optimizers",
    "schedulers": "Schedulers",
    "world_size": "World size",
    "platform": "Platform",
    "inactive": "Options without effect",
}

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A name and what is known of it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class PageData:
    """The page without its looks."""

    run_id: str
    goal: str
    state: str
    tone: str
    counts: tuple[Fact, ...]
    banners: tuple[Banner, ...]
    losses: LossCurve
    rates: SeriesList
    times: SeriesList
    metrics: SeriesList
    reports: SeriesList
    decisions: tuple[DecisionData, ...]
    facts: tuple[Fact, ...]
    options: tuple[Fact, ...]
    extent: int
    """The last update that anything is known of."""


def page_data(record: RunRecord) -> PageData:
    """Read what the page shows; linear in the size of the run."""
    curve = loss_curve(record.losses)
    update = max(last_update(record.events), curve.last)
    state, tone = _state(record)
    return PageData(
        run_id=shortened(record.info.run_id, 120) or record.folder.root.name,
        goal=shortened(record.info.goal, _LONGEST_GOAL),
        state=state,
        tone=tone,
        counts=_counts(record, decision_rows(record.events), update, curve),
        banners=banners(record),
        losses=curve,
        rates=learning_rates(record.losses),
        times=update_times(record.losses),
        metrics=metric_series(record.metrics),
        reports=report_series(record.reports),
        decisions=decision_data(record),
        facts=_facts(record),
        options=tuple(_fact(str(name), value, "none") for name, value in record.info.options.items()),
        extent=max(update, 1),
    )


def _state(record: RunRecord) -> tuple[str, str]:
    if record.state == "finished":
        ended = _last(record, RunEnded)
        outcome = (ended.outcome if ended else record.info.outcome) or "finished"
        return shortened(outcome, 40), "good" if outcome == "finished" else "note"
    return {"running": ("running", "note"), "killed": ("killed", "bad")}.get(record.state, ("unfinished", "note"))


def _counts(record: RunRecord, rows: Sequence[DecisionRow], update: int, curve: LossCurve) -> tuple[Fact, ...]:
    started, ended = _last(record, RunStarted), _last(record, RunEnded)
    answered = sum(row.seconds is not None and row.outcome != "unanswered" for row in rows)
    applied = sum(row.effective_from is not None for row in rows)
    lag, lag_note = _lag(record)
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    begun, end = _span(record)
    planned = f"{len(started.decision_updates):,}" if started else NOT_RECORDED
    dropped = f"{count(started.dropped)} too near the end dropped" if started and started.dropped else ""
    last_mean = curve.means[-1] if curve.means else None
    newest = curve.counts[-1] if curve.counts else 0
    return (
        Fact(name="Updates", value=f"{update:,}", note=f"of {record.info.total_steps:,}"),
        Fact(
            name="Last loss",
            value=number(last_mean),
            note=f"mean of {newest:,}" if newest > 1 else "",
        ),
        Fact(name="Decisions scheduled", value=planned, note=dropped),
        Fact(name="Asked", value=f"{len(rows):,}"),
        Fact(name="Answered", value=f"{answered:,}"),
        Fact(name="Applied", value=f"{applied:,}"),
        Fact(name="Median lag, question to effect", value=lag, note=lag_note),
        Fact(name="Cost", value=dollars(sum(costs)) if costs else NOT_RECORDED),
        Fact(
            name="Waited for the agent",
            value=duration(ended.agent_wait_seconds) if ended else NOT_RECORDED,
            note="" if ended else "told at the end of a run",
        ),
        Fact(name="Time", value=duration(end - begun if begun is not None and end is not None else None)),
    )


def _lag(record: RunRecord) -> tuple[str, str]:
    """How many updates, and how long, between a question and its program's first update."""
    asked = {event.decision: event.time for event in record.events if isinstance(event, DecisionAsked)}
    applied = [event for event in record.events if isinstance(event, ProgramApplied)]
    if not applied:
        return "none applied", ""
    updates = median(event.effective_from - event.asked_at for event in applied)
    seconds = [event.time - asked[event.decision] for event in applied if event.decision in asked]
    return f"{updates:g} update{'' if updates == 1 else 's'}", duration(median(seconds)) if seconds else ""


def _span(record: RunRecord) -> tuple[float | None, float | None]:
    """When the run began and ended, or was last heard of."""
    times = [event.time for event in record.events]
    begun = seconds_since_1970(record.info.started)
    end = seconds_since_1970(record.info.ended)
    return begun or min(times, default=None), end or max(times, default=None)


def _facts(record: RunRecord) -> tuple[Fact, ...]:
    """What is fixed about the run, in a fixed order."""
    fields: dict[str, Any] = msgspec.structs.asdict(record.info)
    started = _last(record, RunStarted)
    facts = [
        _fact("Run", record.info.run_id),
        *(_fact(label, fields[name], "none" if name == "inactive" else "") for name, label in _LABELS.items()
          if name in fields),
        _fact("Backend", started.backend if started else None),
        _fact("Last program", record.final_version),
        _fact("Run folder", str(record.folder.root)),
    ]  # fmt: skip
    return tuple(facts)


def _fact(name: str, value: Any, empty: str = "") -> Fact:
    """A fact; `empty` is said where the value is none on purpose."""
    text = " ".join(str(part) for part in value) if name == "Command" and isinstance(value, list) else value
    shown = empty if empty and value in (None, "", [], {}, ()) else value_text(text)
    cut = len(shown) > _LONGEST_FACT
    return Fact(
        name=shortened(name, 120),
        value=clean(shown[:_LONGEST_FACT]),
        note=f"cut: {len(shown):,} characters" if cut else "",
    )


def _last(record: RunRecord, kind: type[E]) -> E | None:
    return next((event for event in reversed(record.events) if isinstance(event, kind)), None)
