"""What needs a person's attention, from the events of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from opal.records.decision_rows import decision_rows
from opal.records.events import (
    AnalysisFailed,
    DecisionMissed,
    Event,
    InstallationChanged,
    NonfiniteLoss,
    ProgramRefused,
    ProgramReverted,
    RecordsLost,
    RunEnded,
    Warned,
)
from opal.records.reader import RunRecord
from opal.report.wording import count, numbers_in_words, shortened

MOST_DETAILS = 20

_LONGEST = 400

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, kw_only=True)
class Banner:
    """A sentence and its details. `tone` is bad or note."""

    tone: str
    text: str
    details: tuple[str, ...] = ()


def banners(record: RunRecord) -> tuple[Banner, ...]:
    """The banners of a run, the gravest first."""
    found = [
        _unfinished(record),
        _reverted(record),
        _refused(record),
        _nonfinite(record),
        _lost(record),
        _skipped(record),
        _analysis(record),
        _unanswered(record),
        _missed(record),
        _installation(record),
        _warned(record),
    ]
    return tuple(sorted((banner for banner in found if banner), key=lambda banner: banner.tone != "bad"))


def _unfinished(record: RunRecord) -> Banner | None:
    ended = _of(record, RunEnded)
    outcome = (ended[-1].outcome if ended else record.info.outcome) or "finished"
    texts = {
        "running": "The run goes on; this page shows what was recorded when it was built.",
        "killed": "The run did not end: its process is gone, so it was killed or crashed.",
        "unknown": "The run has not written its end: it goes on elsewhere, or was killed.",
    }
    if record.state in texts:
        return Banner(tone="note" if record.state == "running" else "bad", text=texts[record.state])
    if outcome == "finished":
        return None
    return Banner(tone="note", text=f"The run is not complete: {shortened(outcome, 80)}.")


def _reverted(record: RunRecord) -> Banner | None:
    events = _of(record, ProgramReverted)
    details = [f"{e.version} at update {e.update:,}, {e.goes_on_with} goes on: {e.why}" for e in events]
    verb = "was" if len(events) == 1 else "were"
    return _list("bad", f"{count(len(events), 'program')} {verb} reverted.", details)


def _refused(record: RunRecord) -> Banner | None:
    events = _of(record, ProgramRefused)
    details = [f"decision {e.decision} ({e.stage}): {e.sentence}" for e in events]
    verb = "was" if len(events) == 1 else "were"
    return _list("bad", f"{count(len(events), 'candidate program')} {verb} refused.", details)


def _nonfinite(record: RunRecord) -> Banner | None:
    updates = [event.first_update for event in _of(record, NonfiniteLoss)]
    if not updates:
        return None
    what = "at update" if len(updates) == 1 else "first at updates"
    return Banner(tone="bad", text=f"The loss was not finite, {what} {numbers_in_words(updates)}.")


def _lost(record: RunRecord) -> Banner | None:
    events = _of(record, RecordsLost)
    details = [f"after update {event.update:,}: {event.count:,} ({event.why})" for event in events]
    return _list("bad", f"{count(sum(event.count for event in events), 'record')} lost: the page has gaps.", details)


def _skipped(record: RunRecord) -> Banner | None:
    parts = []
    if record.torn_lines:
        parts.append(count(record.torn_lines, "torn line"))
    if record.unknown_events:
        parts.append(f"{count(record.unknown_events, 'event')} that this version of OPAL does not know")
    return Banner(tone="note", text=f"Left out of the events: {' and '.join(parts)}.") if parts else None


def _analysis(record: RunRecord) -> Banner | None:
    details = []
    for event in _of(record, AnalysisFailed):
        place = f" at {event.file}:{event.line}" if event.file else ""
        details.append(f"{event.version} at update {event.update:,}{place}: {event.error}: {event.message}")
    return _list("bad", f"The analysis failed {count(len(details), 'time')}.", details)


def _unanswered(record: RunRecord) -> Banner | None:
    rows = [row for row in decision_rows(record.events) if row.outcome == "unanswered"]
    details = [f"decision {row.number}: {row.note}" for row in rows]
    return _list("note", f"{count(len(rows), 'decision')} got no answer; the programs stayed.", details)


def _missed(record: RunRecord) -> Banner | None:
    details = [f"after update {event.update:,}: {event.why}" for event in _of(record, DecisionMissed)]
    verb = "was due and was" if len(details) == 1 else "were due and were"
    return _list("note", f"{count(len(details), 'decision')} {verb} not asked.", details)


def _installation(record: RunRecord) -> Banner | None:
    files = [file for event in _of(record, InstallationChanged) for file in event.files]
    return _list("note", "The installation of OPAL is not as it was released.", list(dict.fromkeys(files)))


def _warned(record: RunRecord) -> Banner | None:
    texts = Counter(event.text for event in _of(record, Warned))
    details = [text if times == 1 else f"{text} ({times} times)" for text, times in texts.items()]
    return _list("note", f"{count(len(details), 'warning')}.", details)


def _list(tone: str, text: str, details: Sequence[str]) -> Banner | None:
    """A banner with details, at most so many; None without any."""
    if not details:
        return None
    shown = [shortened(detail, _LONGEST) for detail in details[:MOST_DETAILS]]
    if len(details) > MOST_DETAILS:
        shown.append(f"and {len(details) - MOST_DETAILS:,} more")
    return Banner(tone=tone, text=text, details=tuple(shown))


def _of(record: RunRecord, kind: type[E]) -> list[E]:
    return [event for event in record.events if isinstance(event, kind)]
