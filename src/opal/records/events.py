"""One frozen class per kind of event. `events.jsonl` holds them, one a line; readers skip unknown kinds."""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec


def _kind(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=_kind, omit_defaults=False):
    """Base of all events: when (seconds since 1970) and after how many updates."""

    time: float
    update: int


class RunStarted(Event, frozen=True, kw_only=True, tag=_kind):
    """The run began. `decision_updates` are the scheduled ones that remain; `dropped` those too near the end."""

    total_steps: int
    decision_updates: tuple[int, ...]
    dropped: int
    backend: str


class RunEnded(Event, frozen=True, kw_only=True, tag=_kind):
    """The run was closed. `outcome` is finished, closed early, or interrupted."""

    outcome: str
    version: str
    agent_wait_seconds: float
    cost_usd: float | None


class DecisionAsked(Event, frozen=True, kw_only=True, tag=_kind):
    """A question went to the agent."""

    decision: int
    reasons: tuple[str, ...]
    waits: bool


class DecisionAnswered(Event, frozen=True, kw_only=True, tag=_kind):
    """An answer came. `edited` says whether the program files differ from the running ones; `text` is the rationale."""

    decision: int
    asked_at: int
    seconds: float
    edited: bool
    text: str
    cost_usd: float | None = None


class DecisionUnanswered(Event, frozen=True, kw_only=True, tag=_kind):
    """No answer came; the programs stay."""

    decision: int
    asked_at: int
    seconds: float
    why: str


class DecisionMissed(Event, frozen=True, kw_only=True, tag=_kind):
    """What was due was not asked, because a cap was reached or one was open."""

    why: str


class ProgramApplied(Event, frozen=True, kw_only=True, tag=_kind):
    """A new program took over before the update `effective_from`."""

    decision: int
    version: str
    previous: str
    asked_at: int
    effective_from: int
    sides: tuple[str, ...]
    seconds: float


class ProgramRefused(Event, frozen=True, kw_only=True, tag=_kind):
    """A candidate never ran: its files, its import or its build failed."""

    decision: int
    version: str
    stage: str
    sentence: str
    undone: str


class ProgramFailed(Event, frozen=True, kw_only=True, tag=_kind):
    """A running updater failed."""

    version: str
    stage: str
    error: str
    message: str
    file: str | None
    line: int | None
    undone: str
    goes_on_with: str


class ProgramReverted(Event, frozen=True, kw_only=True, tag=_kind):
    """An earlier updater is back in force."""

    version: str
    goes_on_with: str
    why: str


class TrialPassed(Event, frozen=True, kw_only=True, tag=_kind):
    """A new updater got through its trial and is the fallback from now on."""

    version: str


class AnalysisFailed(Event, frozen=True, kw_only=True, tag=_kind):
    """The analysis failed and is not called again until it is edited."""

    version: str
    error: str
    message: str
    file: str | None
    line: int | None


class AnalysisWoke(Event, frozen=True, kw_only=True, tag=_kind):
    """The analysis asked for a decision."""

    why: str


class NonfiniteLoss(Event, frozen=True, kw_only=True, tag=_kind):
    """A check found a loss that is not finite, first at `first_update`."""

    first_update: int


class ProgramAudited(Event, frozen=True, kw_only=True, tag=_kind):
    """One update of a program, counted: operator calls and reads by the host."""

    version: str
    operator_calls: int
    host_reads: int
    host_read_places: tuple[str, ...]


class WaitingChosen(Event, frozen=True, kw_only=True, tag=_kind):
    """With `blocking="auto"`: whether training waits for this decision, and why."""

    decision: int
    waits: bool
    why: str


class NoteReceived(Event, frozen=True, kw_only=True, tag=_kind):
    """A person's note for the agent."""

    text: str


class SchedulerAdopted(Event, frozen=True, kw_only=True, tag=_kind):
    """A scheduler built on the wrapped optimizer, and not given to `wrap`, was taken over."""

    name: str


class InstallationChanged(Event, frozen=True, kw_only=True, tag=_kind):
    """Files of the installed package differ from its record, or a source checkout has changes."""

    files: tuple[str, ...]


class Warned(Event, frozen=True, kw_only=True, tag=_kind):
    """Something that the person was warned of."""

    text: str


class RecordsLost(Event, frozen=True, kw_only=True, tag=_kind):
    """Records were lost (a full or vanished disk, a full queue)."""

    count: int
    why: str


AnyEvent: TypeAlias = (
    RunStarted
    | RunEnded
    | DecisionAsked
    | DecisionAnswered
    | DecisionUnanswered
    | DecisionMissed
    | ProgramApplied
    | ProgramRefused
    | ProgramFailed
    | ProgramReverted
    | TrialPassed
    | AnalysisFailed
    | AnalysisWoke
    | NonfiniteLoss
    | ProgramAudited
    | WaitingChosen
    | NoteReceived
    | SchedulerAdopted
    | InstallationChanged
    | Warned
    | RecordsLost
)


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `losses.jsonl`: what one check read. One loss per update from `first` on, None where none was given."""

    update: int
    first: int
    values: tuple[float | None, ...]
    learning_rates: tuple[float, ...] = ()
    wall_ms: float | None = None
    program_ms: float | None = None
    version: str = "v000"
