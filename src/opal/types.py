"""What crosses layers: plain, frozen data without torch.

Counts are updates, from 1. Times are seconds. `nan` stands for a loss that was not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ReasonKind = Literal["scheduled", "wake", "nonfinite", "failed_program", "skips", "person"]
Undone = Literal["exactly", "not", "nothing to undo"]
Stage = Literal["files", "import", "build", "first update", "trial", "update", "analysis"]
OutcomeKind = Literal["applied", "kept", "refused", "failed", "reverted", "unanswered", "late"]


# ── What the run is ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ParameterFacts:
    """One parameter as the agent is told of it."""

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    count: int
    requires_grad: bool
    group: int


@dataclass(frozen=True, kw_only=True)
class GroupFacts:
    """One parameter group of the script's optimizers. `index` counts over all of them, as in `param_groups`."""

    index: int
    optimizer: str
    options: Mapping[str, Any]
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SchedulerFacts:
    """One of the script's schedulers: class, settings without its optimizer, source where it is home-made."""

    name: str
    settings: Mapping[str, Any]
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class OptimizerFacts:
    """One of the script's optimizers; `source` where its class is not torch's own."""

    name: str
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """The model as the agent is told of it; `sources` maps a file name to the text of home-made classes in it."""

    name: str
    summary: str
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Everything about a run that is fixed at `wrap` and stated to the agent."""

    parameters: tuple[ParameterFacts, ...]
    groups: tuple[GroupFacts, ...]
    optimizers: tuple[OptimizerFacts, ...]
    schedulers: tuple[SchedulerFacts, ...]
    model: ModelFacts
    script: str | None
    world_size: int
    torch_version: str
    python_version: str
    hardware: str
    uses_activations: tuple[str, ...] = ()


# ── What the run measured ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the analysis reported at an update."""

    update: int
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A value that the script logged or measured on a development set."""

    update: int
    name: str
    value: float
    shown: bool
    development: bool = False


@dataclass(frozen=True, kw_only=True)
class SmoothedLoss:
    """A mean of recent losses with its standard error, at an update."""

    update: int
    mean: float
    standard_error: float


@dataclass(frozen=True, kw_only=True)
class LossHistory:
    """Losses since the previous decision as at most 100 means, each with the last update of its window."""

    means: tuple[tuple[int, float], ...] = ()
    now: SmoothedLoss | None = None
    before: SmoothedLoss | None = None


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Milliseconds per update over updates that are neither checks nor the first after a swap; `nan` if unknown."""

    wall_ms: float
    program_ms: float
    starting_wall_ms: float
    starting_program_ms: float


@dataclass(frozen=True, kw_only=True)
class ProgramAudit:
    """Operator calls and reads by the host of one audited update of a program."""

    version: str
    update: int
    operator_calls: int
    host_reads: int
    host_read_places: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupRate:
    """The learning rate that a group has now: how many tensors, the role of the first one, the rate."""

    tensors: int
    first_role: str
    rate: float


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A program failed: where, how, and what became of its effects."""

    version: str
    stage: Stage
    update: int
    error: str
    message: str
    file: str | None
    line: int | None
    traceback: str
    undone: Undone
    goes_on_with: str


# ── A decision ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a decision is asked."""

    kind: ReasonKind
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of an answer, in a sentence and in fields."""

    decision: int
    kind: OutcomeKind
    sentence: str
    version: str | None = None
    asked_at: int = 0
    effective_from: int | None = None


@dataclass(frozen=True, kw_only=True)
class DecisionRequest:
    """Everything that a decision's message is made of. `number` is 0 in the closing message after the last one."""

    number: int
    update: int
    total_updates: int
    epoch: float | None
    waits: bool
    reasons: tuple[Reason, ...]
    first: bool
    last: bool
    next_update: int | None
    decisions_left: int
    running_version: str
    previous: tuple[Outcome, ...] = ()
    losses: LossHistory = field(default_factory=LossHistory)
    development: tuple[Metric, ...] = ()
    reports: tuple[Report, ...] = ()
    metrics: tuple[Metric, ...] = ()
    skipped: tuple[int, ...] = ()
    failures: tuple[Failure, ...] = ()
    rates: tuple[GroupRate, ...] = ()
    timing: Timing | None = None
    audits: tuple[ProgramAudit, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One question to a backend: a decision's message, or a follow-up round with what was found wrong."""

    decision: int
    round: int
    update: int
    message: str
    system: str
    folder: str
    """Where the backend puts its transcript (`decisions/NNN` of the run folder)."""


@dataclass(frozen=True, kw_only=True)
class AgentAnswer:
    """What the agent left: its text, and what it cost. The edited files lie in the workspace.

    With `keeps` the programs stay, whatever lies there.
    """

    text: str
    keeps: bool = False
    cost_usd: float | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A candidate program: its files, and which of its sides differ from the running one."""

    files: Mapping[str, str]
    updater_changed: bool
    analysis_changed: bool

    @property
    def changed(self) -> bool:
        """Whether anything differs from the running program."""
        return self.updater_changed or self.analysis_changed
