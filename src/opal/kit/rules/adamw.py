"""AdamW, and Adam with coupled weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from opal.kit.rules.base import Rule
from opal.kit.rules.groups import Groups

__all__ = ["AdamW"]


class AdamW(Rule):
    """Adam with decoupled weight decay; the same bytes as `torch.optim.AdamW(foreach=True)`.

    With g the gradient and t the parameter's own count of updates:
    `p *= 1 - lr * weight_decay`, `m += (1 - beta1) * (g - m)`, `v = beta2 * v + (1 - beta2) * g * g`,
    `p -= lr / (1 - beta1**t) * m / (sqrt(v / (1 - beta2**t)) + eps)`.
    Sources: Kingma and Ba 2015, arXiv:1412.6980; Loshchilov and Hutter 2019, arXiv:1711.05101.

    Complex parameters are taken as pairs of real ones. Sparse gradients are not supported.

    Args:
        params: groups, or pairs (name, parameter).
        lr, betas, eps, weight_decay: options of the groups that do not give their own.
        decoupled: False is `torch.optim.Adam`: `weight_decay * p` is added to the gradient instead.
        state_dtype: `torch.float32` keeps moments, and computes, in float32 for parameters in half precision, so that
            each update is rounded once; by default all is in the parameter's dtype, as in torch.
    """

    def __init__(
        self,
        params: Groups,
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        decoupled: bool = True,
        state_dtype: torch.dtype | None = None,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "decoupled": decoupled}
        super().__init__(params, options, state_dtype=state_dtype)

    def fresh(self, param: Tensor) -> dict[str, Any]:
        """`step` 0 and two moments of zeros: `exp_avg`, `exp_avg_sq`."""
        return {"step": 0, "exp_avg": _zeros(param), "exp_avg_sq": _zeros(param)}

    def accept(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """Both moments and the count of updates, from any rule that has them."""
        if any(entry.get(key) is None for key in ("exp_avg", "exp_avg_sq", "step")):
            return None
        return {"step": int(entry["step"]), "exp_avg": entry["exp_avg"], "exp_avg_sq": entry["exp_avg_sq"]}

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[Any]) -> None:
        """One update; the order of operations is torch's."""
        lr, weight_decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        firsts = [state["exp_avg"] for state in states]
        seconds = [state["exp_avg_sq"] for state in states]
        if params[0].is_complex():
            params, grads, firsts, seconds = (
                list(map(torch.view_as_real, x)) for x in (params, grads, firsts, seconds)
            )
        if weight_decay != 0:
            if group["decoupled"]:
                torch._foreach_mul_(params, 1 - lr * weight_decay)
            else:
                grads = list(torch._foreach_add(grads, params, alpha=weight_decay))
        torch._foreach_lerp_(firsts, grads, 1 - beta1)
        torch._foreach_mul_(seconds, beta2)
        torch._foreach_addcmul_(seconds, grads, grads, 1 - beta2)
        denominators = torch._foreach_sqrt(seconds)
        steps = _count(states)
        if steps.count(steps[0]) == len(steps):
            torch._foreach_div_(denominators, (1 - beta2 ** steps[0]) ** 0.5)
            torch._foreach_add_(denominators, group["eps"])
            torch._foreach_addcdiv_(params, firsts, denominators, -(lr / (1 - beta1 ** steps[0])))
        else:
            torch._foreach_div_(denominators, [(1 - beta2**step) ** 0.5 for step in steps])
            torch._foreach_add_(denominators, group["eps"])
            torch._foreach_addcdiv_(params, firsts, denominators, [-(lr / (1 - beta1**step)) for step in steps])


def _count(states: list[Any]) -> list[int]:
    """Count this update in each state; the counts."""
    for state in states:
        state["step"] += 1
    return [state["step"] for state in states]


def _zeros(param: Tensor) -> Tensor:
    return torch.zeros_like(param, memory_format=torch.preserve_format)
