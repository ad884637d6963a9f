"""Groups as a program gives them, checked and completed, and sorted into lots for `torch._foreach_*`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

__all__ = ["Groups", "Lot", "make_groups", "make_lots"]

Groups = Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]

_HALF = (torch.float16, torch.bfloat16)


@dataclass(kw_only=True)
class Lot:
    """Parameters of one group with one device, dtype and type, in the group's order; `wider`: dtype to compute in."""

    wider: torch.dtype | None
    names: list[str] = field(default_factory=list)
    params: list[Tensor] = field(default_factory=list)


def make_groups(params: Groups, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Groups with `params`, `names` and every option, each a new dict.

    Raises:
        TypeError: no pairs (name, parameter), and no groups of them.
        ValueError: a name twice, or `params` and `names` of different lengths, or a learning rate that is no number
            from 0 up.
    """
    given = list(params)
    if not given:
        return [{"params": [], "names": [], **options}]
    dicts = [item for item in given if isinstance(item, dict)]
    groups = [_group(dict(item), options) for item in dicts or [{"params": given}]]
    seen: set[str] = set()
    for group in groups:
        for name in group["names"]:
            if name in seen:
                raise ValueError(f"the parameter {name!r} is there twice; each belongs to one group, once")
            seen.add(name)
        lr = group["lr"]
        if isinstance(lr, Tensor) or not lr >= 0:
            raise ValueError(f"lr={lr!r}: give a plain number, 0 or more")
    return groups


def _group(group: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    members = list(group.pop("params"))
    if "names" in group:
        names, params = list(group.pop("names")), members
    elif all(isinstance(member, tuple) and len(member) == 2 for member in members):
        names, params = [name for name, _ in members], [param for _, param in members]
    else:
        raise TypeError("a group's `params` holds pairs (name, parameter), or parameters with a list `names` beside it")
    if len(names) != len(params):
        raise ValueError(f"a group has {len(params)} parameters and {len(names)} names; give one name for each")
    return {"params": params, "names": names, **options, **group}


def make_lots(group: Mapping[str, Any], state_dtype: torch.dtype | None) -> list[Lot]:
    """The parameters of a group by device, dtype and type, which foreach functions need to be one."""
    lots: dict[tuple[torch.device, torch.dtype, type], Lot] = {}
    for name, param in zip(group["names"], group["params"], strict=True):
        key = (param.device, param.dtype, type(param))
        if key not in lots:
            lots[key] = Lot(wider=state_dtype if param.dtype in _HALF and state_dtype != param.dtype else None)
        lots[key].names.append(name)
        lots[key].params.append(param)
    return list(lots.values())
