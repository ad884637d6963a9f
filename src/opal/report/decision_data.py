"""Each decision as the page shows it: what was asked, answered and changed, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from opal.records.decision_rows import DecisionRow, decision_rows
from opal.records.events import AnyEvent, ProgramApplied, ProgramFailed, ProgramRefused, ProgramReverted
from opal.records.reader import RunRecord
from opal.report.changes import ConstantChange, changed_constants, one_line_change
from opal.report.diff import FileDiff, program_diff
from opal.report.text_budget import CutText, cut_texts
from opal.report.wording import NOT_RECORDED, dollars, duration, shortened

QUOTE = 240

_MOST_CONSTANTS = 40
_LONGEST_ERROR = 2_000
_OUTCOMES = {
    "open": ("waits for an answer", "note"),
    "answered": ("answered, not yet in force", "note"),
    "kept": ("kept", "plain"),
    "applied": ("applied", "good"),
    "refused": ("refused", "bad"),
    "unanswered": ("no answer", "note"),
    "late": ("too late for the run", "note"),
}


@dataclass(frozen=True, kw_only=True)
class DiffText:
    """A file's diff, cut where it is long."""

    path: str
    added: int
    removed: int
    lines: tuple[str, ...]
    cut: bool

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Lines of one kind in a row, with their first character, for few elements in the page."""
        return tuple((kind, "\n".join(lines)) for kind, lines in groupby(self.lines, key=lambda line: line[:1]))


@dataclass(frozen=True, kw_only=True)
class DecisionData:
    """A decision, ready to be shown. `tone` is good, bad, note or plain."""

    row: DecisionRow
    outcome: str
    tone: str
    took: str
    cost: str
    change: str
    quote: str
    reasons: str
    rationale: CutText
    message: CutText
    files: tuple[DiffText, ...]
    constants: tuple[ConstantChange, ...]
    constants_left_out: int
    errors: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """Whether a program of this decision came into force."""
        return self.row.effective_from is not None


def decision_data(record: RunRecord) -> tuple[DecisionData, ...]:
    """Every decision in the order of asking, with texts cut to what the page holds."""
    rows = decision_rows(record.events)
    bases = _programs_before(record.events)
    edits = [_edit(record, row, bases.get(row.number)) for row in rows]
    diffs = [program_diff(*edit) if edit else () for edit in edits]
    messages = [_message(record, row) for row in rows]
    diff_texts = ["\n".join(line for file in files for line in file.lines) for files in diffs]
    cut = cut_texts([row.rationale for row in rows] + messages + diff_texts)
    rationales, cut_messages, cut_diffs = (cut[len(rows) * part : len(rows) * (part + 1)] for part in range(3))
    errors = _errors(record.events)
    return tuple(
        _decision(row, edit, files, rationale, message, len(text.text), errors)
        for row, edit, files, rationale, message, text in zip(
            rows, edits, diffs, rationales, cut_messages, cut_diffs, strict=True
        )
    )


_Edit = tuple[Mapping[str, str], Mapping[str, str]]


def _decision(
    row: DecisionRow,
    edit: _Edit | None,
    files: Sequence[FileDiff],
    rationale: CutText,
    message: CutText,
    diff_length: int,
    errors: Mapping[tuple[str, int], Sequence[str]],
) -> DecisionData:
    outcome, tone = _outcome(row)
    constants = changed_constants(*edit) if edit else ()
    own = [*errors.get(("decision", row.number), ())]
    if row.version and row.effective_from is not None:
        own += errors.get((row.version, 0), ())
    elif row.outcome in ("unanswered", "late") and row.note:
        own.append(shortened(row.note, _LONGEST_ERROR))
    return DecisionData(
        row=row,
        outcome=outcome,
        tone=tone,
        took=duration(row.seconds),
        cost=dollars(row.cost_usd),
        change=_change(row, edit, files),
        quote=shortened(row.rationale, QUOTE),
        reasons=", ".join(row.reasons) or NOT_RECORDED,
        rationale=rationale,
        message=message,
        files=_cut_files(files, diff_length),
        constants=constants[:_MOST_CONSTANTS],
        constants_left_out=max(len(constants) - _MOST_CONSTANTS, 0),
        errors=tuple(own),
    )


def _change(row: DecisionRow, edit: _Edit | None, files: Sequence[FileDiff]) -> str:
    if edit is not None:
        return one_line_change(*edit, files)
    edits = row.version is not None or row.outcome in ("answered", "refused", "late")
    return f"files {NOT_RECORDED}" if edits else ""


def _outcome(row: DecisionRow) -> tuple[str, str]:
    text, tone = _OUTCOMES[row.outcome]
    if row.outcome == "applied" and row.version:
        text = f"applied as {row.version}"
    if row.reverted_at is not None:
        return f"{text}, reverted at update {row.reverted_at:,}", "bad"
    return text, tone


def _programs_before(events: Sequence[AnyEvent]) -> dict[int, str]:
    """The version in force before what each decision left, applied or refused."""
    running, before = "v000", {}
    for event in events:
        if isinstance(event, ProgramApplied):
            before[event.decision] = event.previous
            running = event.version
        elif isinstance(event, ProgramRefused):
            before[event.decision] = running
        elif isinstance(event, ProgramReverted):
            running = event.goes_on_with
    return before


def _edit(record: RunRecord, row: DecisionRow, base: str | None) -> _Edit | None:
    """The program before and after; None where nothing was edited or the files are not there."""
    if base is None or row.version is None:
        return None
    old = record.programs.get(base)
    new = record.programs.get(row.version) if row.effective_from is not None else _refused_files(record, row.number)
    return (old, new) if old and new else None


def _refused_files(record: RunRecord, number: int) -> Mapping[str, str]:
    folder = record.decisions.get(number)
    return folder.rejected if folder else {}


def _message(record: RunRecord, row: DecisionRow) -> str:
    folder = record.decisions.get(row.number)
    return folder.message if folder else ""


def _cut_files(files: Sequence[FileDiff], length: int) -> tuple[DiffText, ...]:
    """The diffs, until `length` characters of their lines are used up."""
    shown = []
    for file in files:
        lines: list[str] = []
        for line in file.lines:
            length -= len(line) + 1
            if length < -1:
                break
            lines.append(line)
        cut = len(lines) < len(file.lines)
        shown.append(DiffText(path=file.path, added=file.added, removed=file.removed, lines=tuple(lines), cut=cut))
    return tuple(shown)


def _errors(events: Sequence[AnyEvent]) -> dict[tuple[str, int], list[str]]:
    """What went wrong, by decision for candidates, by version for programs that ran."""
    errors: dict[tuple[str, int], list[str]] = {}
    for event in events:
        if isinstance(event, ProgramRefused):
            text = f"Refused ({event.stage}): {event.sentence}"
            key = ("decision", event.decision)
        elif isinstance(event, ProgramFailed):
            place = f" at {event.file}:{event.line}" if event.file else ""
            text = (
                f"Failed at update {event.update:,} ({event.stage}){place}: {event.error}: {event.message}. "
                f"Undone: {event.undone}. {event.goes_on_with} goes on."
            )
            key = (event.version, 0)
        elif isinstance(event, ProgramReverted):
            text = f"Reverted at update {event.update:,}, {event.goes_on_with} goes on: {event.why}"
            key = (event.version, 0)
        else:
            continue
        errors.setdefault(key, []).append(shortened(text, _LONGEST_ERROR))
    return errors
