"""The configuration of a run: frozen groups of validated values. The only place that validates arguments of `wrap`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from opal.errors import ArgumentTypeError, ArgumentValueError, NotBuiltError

Blocking: TypeAlias = Literal["auto"] | bool
Schedule: TypeAlias = str | tuple[tuple[float, int], ...] | tuple[int, ...]
Fact: TypeAlias = int | float | str | None


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """What is trained, and what the person states about it."""

    total_steps: int
    goal: str
    task_facts: str | None
    epochs: Fact
    train_size: Fact
    batch_size: Fact
    same_order_each_epoch: Fact
    validation: int | None
    validation_size: Fact


@dataclass(frozen=True, kw_only=True)
class DecisionConfig:
    """When the agent is asked, and whether training waits."""

    decisions: int | None
    schedule: Schedule
    max_decisions: int | None
    max_cost_usd: float | None
    max_wait_hours: float | None
    every: int
    blocking: Blocking
    max_lag_updates: int
    show_next_decision: bool
    pause_on_nonfinite: bool


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """Who is asked, and with which prompt."""

    backend: Any
    backend_options: Mapping[str, Any]
    prompt: str
    share_code: bool | tuple[str, ...]
    summarize: bool | str
    approve: str | None


@dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """What belongs to the update itself."""

    clip_grad_norm: float | None
    bounds: Mapping[str, Any] | None
    activations: tuple[str, ...]
    program: str | None


@dataclass(frozen=True, kw_only=True)
class SafetyConfig:
    """What protects the run from a program."""

    trial_steps: int
    snapshot_limit_gb: float
    gate: str
    preflight: bool
    step_timeout: float
    boundary: str
    eval_integrity: bool | None
    eval_integrity_threshold: float


@dataclass(frozen=True, kw_only=True)
class RecordsConfig:
    """Where the run is recorded, and who is told."""

    run_dir: str | None
    trackers: tuple[Any, ...]
    notify: Any


@dataclass(frozen=True, kw_only=True)
class DistributedConfig:
    """How often ranks talk."""

    sync_every: int
    rank_check_every: int


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All groups. `inactive` names the arguments whose feature is not built; they have their defaults."""

    task: TaskConfig
    decisions: DecisionConfig
    agent: AgentConfig
    update: UpdateConfig
    safety: SafetyConfig
    records: RecordsConfig
    distributed: DistributedConfig
    inactive: tuple[str, ...]


# Arguments whose feature is not built yet: their defaults are accepted, any other value raises.
NOT_BUILT: dict[str, Any] = {
    "max_cost_usd": None,
    "max_wait_hours": None,
    "bounds": None,
    "validation": None,
    "validation_size": None,
    "eval_integrity": None,
    "eval_integrity_threshold": 5,
    "gate": "warn",
    "preflight": True,
    "step_timeout": 60,
    "boundary": "flag",
    "approve": None,
    "sync_every": 20,
    "rank_check_every": 100,
    "program": None,
    "summarize": True,
    "trackers": (),
    "notify": None,
}


def refuse_unknown(unknown: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise for the first unknown argument of `wrap`, and name the closest known one."""
    for name, value in unknown.items():
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
        raise ArgumentTypeError(name, value, f"wrap() has no argument of this name; {hint}")


def parse(a: Mapping[str, Any]) -> RunConfig:
    """Validate the arguments of `wrap` (all but optimizer, model, scheduler) and group them.

    Raises:
        ArgumentValueError, ArgumentTypeError: naming the argument, its value and what is allowed.
        NotBuiltError: for a value that needs a feature which this version does not have.
    """
    config = RunConfig(
        task=_task(a),
        decisions=_decisions(a),
        agent=_agent(a),
        update=_update(a),
        safety=_safety(a),
        records=_records(a),
        distributed=DistributedConfig(
            sync_every=_integer(a, "sync_every", low=1),
            rank_check_every=_integer(a, "rank_check_every", low=1),
        ),
        inactive=tuple(NOT_BUILT),
    )
    for name, default in NOT_BUILT.items():
        if a[name] != default:
            raise NotBuiltError(f"{name}={a[name]!r}", f"leave it at its default, {default!r}")
    return config


def _task(a: Mapping[str, Any]) -> TaskConfig:
    return TaskConfig(
        total_steps=_integer(a, "total_steps", low=1),
        goal=_text(a, "goal"),
        task_facts=None if a["task_facts"] is None else _text(a, "task_facts"),
        epochs=_fact(a, "epochs"),
        train_size=_fact(a, "train_size"),
        batch_size=_fact(a, "batch_size"),
        same_order_each_epoch=_fact(a, "same_order_each_epoch"),
        validation=_optional(_integer, a, "validation", low=1),
        validation_size=_fact(a, "validation_size"),
    )


def _decisions(a: Mapping[str, Any]) -> DecisionConfig:
    blocking = a["blocking"]
    if not isinstance(blocking, bool) and blocking != "auto":
        raise _wrong(blocking, str | bool, "blocking", "allowed are True, False and 'auto'")
    total = _integer(a, "total_steps", low=1)
    decisions = _optional(_integer, a, "decisions", low=0)
    schedule = _schedule(a["schedule"], total)
    if not isinstance(schedule, str) and decisions is not None:
        count = sum(item[1] if isinstance(item, tuple) else 1 for item in schedule)
        if count != decisions:
            allowed = f"the schedule that was given has {count} decisions; leave the argument out, or give {count}"
            raise ArgumentValueError("decisions", decisions, allowed)
    return DecisionConfig(
        decisions=decisions,
        schedule=schedule,
        max_decisions=_optional(_integer, a, "max_decisions", low=0),
        max_cost_usd=_optional(_number, a, "max_cost_usd", low=0.0),
        max_wait_hours=_optional(_number, a, "max_wait_hours", low=0.0),
        every=_integer(a, "every", low=1),
        blocking=blocking,
        max_lag_updates=_integer(a, "max_lag_updates", low=0),
        show_next_decision=_boolean(a, "show_next_decision"),
        pause_on_nonfinite=_boolean(a, "pause_on_nonfinite"),
    )


def _schedule(value: Any, total: int) -> Schedule:
    """Validate `schedule`: a name, segments (end fraction, count), or updates."""
    if isinstance(value, str):
        if value not in ("front", "uniform"):
            raise ArgumentValueError("schedule", value, "allowed are 'front', 'uniform', segments, update numbers")
        return value
    if not isinstance(value, Sequence) or not value:
        raise _wrong(value, Sequence, "schedule", "allowed are 'front', 'uniform', segments such as [(0.05, 20), "
                     "(1.0, 30)], updates such as [500, 1000]")  # fmt: skip
    if all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        if not all(1 <= item <= total for item in value):
            raise ArgumentValueError("schedule", value, f"updates lie within 1 … total_steps ({total})")
        return tuple(int(item) for item in value)
    return tuple(_segments(value))


def _segments(value: Sequence[Any]) -> list[tuple[float, int]]:
    segments: list[tuple[float, int]] = []
    for item in value:
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:
            raise ArgumentTypeError("schedule", value, "a segment is a pair (end as a fraction in (0, 1], count)")
        end, count = item
        if isinstance(end, bool) or not isinstance(end, int | float):
            raise ArgumentTypeError("schedule", value, "a segment's end is a fraction in (0, 1]")
        if isinstance(count, bool) or not isinstance(count, int):
            raise ArgumentTypeError("schedule", value, "a segment's count is a whole number")
        if not 0 < end <= 1 or count < 0:
            raise ArgumentValueError("schedule", value, "a segment's end lies in (0, 1], its count is 0 or more")
        if segments and end <= segments[-1][0]:
            raise ArgumentValueError("schedule", value, "the ends of the segments rise")
        segments.append((float(end), count))
    return segments


def _agent(a: Mapping[str, Any]) -> AgentConfig:
    options = a["backend_options"]
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(key, str) for key in options)):
        raise ArgumentTypeError("backend_options", options, "a dict of option names and values")
    summarize = a["summarize"]
    if not isinstance(summarize, bool | str):
        raise ArgumentTypeError("summarize", summarize, "True, False or a model name")
    if a["approve"] not in (None, "ask"):
        raise _wrong(a["approve"], str, "approve", "allowed are None and 'ask'")
    return AgentConfig(
        backend=a["backend"],
        backend_options=dict(options or {}),
        prompt=_prompt(a["prompt"]),
        share_code=_patterns(a["share_code"]),
        summarize=summarize,
        approve=a["approve"],
    )


def _prompt(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ArgumentTypeError("prompt", value, "'neutral', 'aggressive', or the path of a template")
    if value in ("neutral", "aggressive"):
        return str(value)
    if not Path(value).is_file():
        raise ArgumentValueError("prompt", value, "allowed are 'neutral', 'aggressive', and the path of a template")
    return str(Path(value))


def _patterns(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ArgumentTypeError("share_code", value, "True, False, or a list of file name patterns to leave out")


def _update(a: Mapping[str, Any]) -> UpdateConfig:
    names = a["activations"]
    if names is not None and not (
        isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(item, str) for item in names)
    ):
        raise ArgumentTypeError("activations", names, "None or a list of module names")
    if a["bounds"] is not None and not isinstance(a["bounds"], Mapping):
        raise ArgumentTypeError("bounds", a["bounds"], "None or a dict with 'lr', 'weight_decay', 'frozen'")
    return UpdateConfig(
        clip_grad_norm=_optional(_number, a, "clip_grad_norm", low=0.0, open_low=True),
        bounds=a["bounds"],
        activations=tuple(names or ()),
        program=_path(a, "program"),
    )


def _safety(a: Mapping[str, Any]) -> SafetyConfig:
    return SafetyConfig(
        trial_steps=_integer(a, "trial_steps", low=1),
        snapshot_limit_gb=_number(a, "snapshot_limit_gb", low=0.0),
        gate=_choice(a, "gate", ("warn", "revert", "off")),
        preflight=_boolean(a, "preflight"),
        step_timeout=_number(a, "step_timeout", low=0.0),
        boundary=_choice(a, "boundary", ("flag", "block")),
        eval_integrity=_optional(_boolean, a, "eval_integrity"),
        eval_integrity_threshold=_number(a, "eval_integrity_threshold", low=0.0, open_low=True),
    )


def _records(a: Mapping[str, Any]) -> RecordsConfig:
    trackers = a["trackers"]
    if isinstance(trackers, str) or not isinstance(trackers, Sequence):
        raise ArgumentTypeError("trackers", trackers, "a tuple or list of names or objects")
    notify = a["notify"]
    if notify is not None and not isinstance(notify, str) and not callable(notify):
        raise ArgumentTypeError("notify", notify, "None, a function, or a shell command")
    return RecordsConfig(run_dir=_path(a, "run_dir"), trackers=tuple(trackers), notify=notify)


# ── One kind of value each ───────────────────────────────────────────────────────────────────────────────────────


def _integer(a: Mapping[str, Any], name: str, *, low: int) -> int:
    value = a[name]
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentTypeError(name, value, f"a whole number of at least {low}")
    if value.__index__() < low:
        raise ArgumentValueError(name, value, f"a whole number of at least {low}")
    return int(value)


def _number(a: Mapping[str, Any], name: str, *, low: float, open_low: bool = False) -> float:
    value = a[name]
    allowed = f"a finite number {'above' if open_low else 'of at least'} {low:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(name, value, allowed)
    if not (low < value if open_low else low <= value) or value == float("inf"):
        raise ArgumentValueError(name, value, allowed)
    return float(value)


def _boolean(a: Mapping[str, Any], name: str) -> bool:
    if not isinstance(a[name], bool):
        raise ArgumentTypeError(name, a[name], "True or False")
    return bool(a[name])


def _text(a: Mapping[str, Any], name: str) -> str:
    if not isinstance(a[name], str):
        raise ArgumentTypeError(name, a[name], "text")
    if not a[name].strip():
        raise ArgumentValueError(name, a[name], "text that is not empty")
    return str(a[name]).strip()


def _fact(a: Mapping[str, Any], name: str) -> Fact:
    value = a[name]
    if value is not None and not isinstance(value, int | float | str):
        raise ArgumentTypeError(name, value, "None, a number, or text")
    return value


def _choice(a: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    if a[name] not in allowed:
        raise _wrong(a[name], str, name, f"allowed are {', '.join(repr(item) for item in allowed)}")
    return str(a[name])


def _path(a: Mapping[str, Any], name: str) -> str | None:
    if a[name] is not None and not isinstance(a[name], str | os.PathLike):
        raise ArgumentTypeError(name, a[name], "None or a path")
    return None if a[name] is None else os.fspath(a[name])


def _optional(read: Callable[..., Any], a: Mapping[str, Any], name: str, **limits: Any) -> Any:
    return None if a[name] is None else read(a, name, **limits)


def _wrong(value: Any, kind: Any, name: str, allowed: str) -> ArgumentTypeError | ArgumentValueError:
    """A wrong value where the type fits, a wrong type where it does not."""
    return (ArgumentValueError if isinstance(value, kind) else ArgumentTypeError)(name, value, allowed)
