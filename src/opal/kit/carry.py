"""State by parameter name, copied from whatever ran before: `carried = {name: {"exp_avg": …, "step": …}}`.

All that is returned is a copy: the updater that is replaced may come back, and must find its state as it left it. A
rule takes from it what fits: `rule.load(carried)`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from opal.kit.rules.base import Rule

__all__ = ["from_optimizer", "from_rule", "from_state_dict", "from_updater"]

Carried = dict[str, dict[str, Any]]

_DEPTH = 4  # how deep an updater's attributes and containers are searched for rules and optimizers


def from_updater(previous: Any, named_params: Iterable[tuple[str, Tensor]]) -> Carried:
    """The state of an earlier updater: of the rules and torch optimizers in its attributes, else of its `state_dict()`.

    Attributes are searched, and lists, tuples and dicts in them. `previous` may be None, which has no state; the
    starting updater, which holds the script's optimizers; a rule; or an optimizer.
    """
    pairs = list(named_params)
    sources: list[Any] = []
    _find_sources(previous, sources, _DEPTH)
    carried: Carried = {}
    for source in sources:
        _merge(carried, from_rule(source) if isinstance(source, Rule) else from_optimizer(source, pairs))
    if not sources and hasattr(previous, "state_dict"):
        _merge(carried, from_state_dict(previous.state_dict()))
    return carried


def from_optimizer(optimizer: torch.optim.Optimizer, named_params: Iterable[tuple[str, Tensor]]) -> Carried:
    """The state of a torch optimizer, by name, with `step` as a plain number.

    Reads one value per parameter on the host: it belongs into `build`.

    Parameters that the optimizer has no state of, and states of parameters that are not in `named_params`, are left
    out.
    """
    carried: Carried = {}
    for name, param in named_params:
        entry = optimizer.state.get(param)
        if entry:
            carried[name] = _copied(entry)
    return carried


def from_rule(rule: Rule) -> Carried:
    """The state of a rule of the kit."""
    return {name: _copied(entry) for name, entry in rule.state.items()}


def from_state_dict(state: Mapping[str, Any]) -> Carried:
    """The state in a `state_dict()` of a rule, or in one that holds such dicts at any depth."""
    carried: Carried = {}
    todo: list[Any] = [state]
    while todo:
        item = todo.pop(0)
        if isinstance(item, Mapping):
            if "param_groups" in item and _is_by_name(item.get("state")):
                _merge(carried, {name: _copied(entry) for name, entry in item["state"].items()})
            else:
                todo += item.values()
        elif isinstance(item, list | tuple):
            todo += item
    return carried


def _is_by_name(state: Any) -> bool:
    return isinstance(state, Mapping) and all(isinstance(key, str) for key in state)


def _find_sources(item: Any, sources: list[Any], depth: int) -> None:
    if isinstance(item, Rule | torch.optim.Optimizer):
        if not any(item is source for source in sources):
            sources.append(item)
        return
    if depth == 0 or isinstance(item, Tensor | str | bytes | torch.nn.Module | type):
        return
    if isinstance(item, Mapping):
        below = list(item.values())
    elif isinstance(item, list | tuple):
        below = list(item)
    else:
        below = list(getattr(item, "__dict__", {}).values())
    for value in below:
        _find_sources(value, sources, depth - 1)


def _merge(carried: Carried, more: Carried) -> None:
    """Add what is not there yet, by name and key."""
    for name, entry in more.items():
        carried[name] = {**entry, **carried.get(name, {})}


def _copied(entry: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = {}
    for key, value in entry.items():
        if isinstance(value, Tensor):
            copied[key] = int(value) if key == "step" and value.numel() == 1 else value.detach().clone()
        else:
            copied[key] = copy.deepcopy(value)
    return copied
