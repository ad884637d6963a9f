"""What is fixed at `wrap`, as text: groups, schedulers, parameters by role, the whole parameter table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opal.prompts.budget import cut, fit_lines
from opal.prompts.numbers import counted, exact
from opal.types import GroupFacts, ParameterFacts, RunFacts, SchedulerFacts

_WHOLE_TABLE = "all of them are in reference/starting_optimizer.txt"
# Settings of a scheduler that say where it stands, not what it is.
_SCHEDULER_STATE = frozenset({"last_epoch", "base_lrs", "verbose", "last_lr"})


def group_lines(facts: RunFacts, limit: int) -> list[str]:
    """One line a group: optimizer, options that are in use, number of tensors; at most `limit` bytes in all."""
    lines = [_group_line(group) for group in facts.groups]
    return fit_lines(lines, limit, f"- … {{count}} more groups; {_WHOLE_TABLE}")


def options_in_use(options: Mapping[str, Any]) -> dict[str, Any]:
    """A group's options without parameters, defaults that are off, and what schedulers keep there."""
    left_out = ("params", "initial_lr", "decoupled_weight_decay", "param_names")
    return {
        name: value
        for name, value in options.items()
        if name not in left_out and value is not None and value is not False
    }


def scheduler_lines(facts: RunFacts, limit: int) -> list[str]:
    """One line a scheduler: class and settings; at most `limit` bytes in all."""
    lines = [f"- {scheduler_text(scheduler)}" for scheduler in facts.schedulers]
    return fit_lines(lines, limit, f"- … {{count}} more; {_WHOLE_TABLE}")


def scheduler_text(scheduler: SchedulerFacts) -> str:
    """A scheduler as one would build it, without its optimizer."""
    settings = [
        f"{name}={cut(exact(value), 200)}"
        for name, value in scheduler.settings.items()
        if not name.startswith("_") and name not in _SCHEDULER_STATE and value is not None
    ]
    return f"{scheduler.name}({', '.join(settings)})"


def common(facts: RunFacts, field: str) -> str | None:
    """The `dtype` or `device` that all parameters share, or None."""
    values = {getattr(parameter, field) for parameter in facts.parameters}
    return values.pop() if len(values) == 1 else None


def role_lines(facts: RunFacts, limit: int) -> list[str]:
    """A table of the parameters by role, in the model's order; the largest where not all fit into `limit`."""
    roles: dict[str, list[ParameterFacts]] = {}
    for parameter in facts.parameters:
        roles.setdefault(parameter.role, []).append(parameter)
    fields = ["group"] if len(facts.groups) > 1 else []
    fields += [field for field in ("dtype", "device") if common(facts, field) is None]
    rows = {role: _role_row(role, parameters, fields) for role, parameters in roles.items()}
    title = " | ".join(["role", "tensors", "shape", "numbers", *fields])
    room = limit - len(title) - 1
    if sum(len(row.encode()) + 1 for row in rows.values()) <= room:
        return [title, *rows.values()]
    by_size = sorted(roles, key=lambda role: -sum(parameter.count for parameter in roles[role]))
    kept: set[str] = set()
    room -= 120  # the line that says what is left out
    for role in by_size:
        room -= len(rows[role].encode()) + 1
        if room < 0:
            break
        kept.add(role)
    rest = sum(parameter.count for role in roles if role not in kept for parameter in roles[role])
    note = f"… {counted(len(roles) - len(kept), 'smaller role')} with {rest:,} numbers; {_WHOLE_TABLE}"
    return [title, *(row for role, row in rows.items() if role in kept), note]


def parameter_lines(facts: RunFacts) -> list[str]:
    """The whole parameter table, one line each: name, shape, numbers, dtype, device, group, whether it is trained."""
    lines = ["name | shape | numbers | dtype | device | group"]
    for parameter in facts.parameters:
        frozen = "" if parameter.requires_grad else " | frozen"
        lines.append(
            f"{parameter.name} | {_shape(parameter.shape)} | {parameter.count:,} | {parameter.dtype} | "
            f"{parameter.device} | {parameter.group}{frozen}"
        )
    return lines


def _group_line(group: GroupFacts) -> str:
    options = ", ".join(f"{name} {exact(value)}" for name, value in options_in_use(group.options).items())
    return f"- group {group.index}: {group.optimizer}, {counted(len(group.names), 'tensor')}; {cut(options, 400)}"


def _role_row(role: str, parameters: list[ParameterFacts], fields: list[str]) -> str:
    """A row of the table by role; `fields` are those in which the run's parameters differ."""
    shapes = list(dict.fromkeys(_shape(parameter.shape) for parameter in parameters))
    shown = " or ".join(shapes[:3]) + (" …" if len(shapes) > 3 else "")
    row = f"{cut(role, 160)} | {len(parameters)} | {shown} | {sum(parameter.count for parameter in parameters):,}"
    for field in fields:
        values = [str(value) for value in sorted({getattr(parameter, field) for parameter in parameters})]
        row += " | " + ", ".join(values[:6]) + (" …" if len(values) > 6 else "")
    if not all(parameter.requires_grad for parameter in parameters):
        row += " | frozen" if not any(parameter.requires_grad for parameter in parameters) else " | partly frozen"
    return row


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(str(length) for length in shape) or "scalar"
