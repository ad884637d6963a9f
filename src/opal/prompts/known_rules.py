"""Which of the script's optimizers the kit has a rule for, and with which options it does the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opal.prompts.numbers import exact
from opal.types import GroupFacts, RunFacts

# Beyond these many groups a program is shorter, and no slower, when it leaves the script's optimizer as it is.
_MAX_GROUPS = 100

_OPTIONS = {
    "AdamW": ("betas", "eps", "weight_decay"),
    "Adam": ("betas", "eps", "weight_decay"),
    "SGD": ("momentum", "dampening", "weight_decay", "nesterov"),
    "Muon": ("weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps", "adjust_lr_fn"),
}
_UNSUPPORTED = ("amsgrad", "maximize", "differentiable")


@dataclass(frozen=True, kw_only=True)
class KnownGroup:
    """A group of the script as the kit would have it: rule, options as code, the base of its rate."""

    rule: str
    options: Mapping[str, str]
    base: float


def known_groups(facts: RunFacts, bases: list[Any]) -> list[KnownGroup] | None:
    """Every group of the script for the kit's rules, or None where one of them does something that these do not."""
    home_made = any(optimizer.source is not None for optimizer in facts.optimizers)
    sparse = "sparse=True" in facts.model.summary  # torch's embedding says so; the kit takes dense gradients only
    if home_made or sparse or not 0 < len(facts.groups) <= _MAX_GROUPS:
        return None
    known = [_known(group, base) for group, base in zip(facts.groups, bases, strict=True)]
    found = [group for group in known if group is not None]
    return found if len(found) == len(known) else None


def _known(group: GroupFacts, base: Any) -> KnownGroup | None:
    names = _OPTIONS.get(group.optimizer)
    if names is None or any(group.options.get(name) for name in _UNSUPPORTED):
        return None
    if not _is_plain(base) or not all(name in group.options for name in names):
        return None
    values = {name: _tuple(group.options[name]) for name in names}
    if group.optimizer == "Muon" and values["adjust_lr_fn"] is None:
        values["adjust_lr_fn"] = "original"  # what torch means by None
    if not all(_is_plain(value) for value in values.values()):
        return None
    rule = "AdamW" if group.optimizer == "Adam" else group.optimizer
    if rule == "AdamW":
        values["decoupled"] = bool(group.options.get("decoupled_weight_decay", group.optimizer == "AdamW"))
        if values["decoupled"]:
            del values["decoupled"]  # the rule's default
    return KnownGroup(rule=rule, options={name: literal(value) for name, value in values.items()}, base=float(base))


def literal(value: Any) -> str:
    """A plain value as code."""
    return repr(value) if isinstance(value, str) else exact(value)


def _tuple(value: Any) -> Any:
    """Lists as tuples, which a program may use in keys."""
    return tuple(value) if isinstance(value, list) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return isinstance(value, bool | int | float | str)
