"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from opal.kit.rules.base import Rule
from opal.kit.rules.groups import Groups

__all__ = ["SGD"]


class SGD(Rule):
    """SGD with momentum, Nesterov's or the classical; the same bytes as `torch.optim.SGD(foreach=True)`.

    With g the gradient: `g += weight_decay * p`; with momentum, `b = momentum * b + (1 - dampening) * g` (`b = g` at a
    parameter's first update) and then `g = b`, or under Nesterov `g += momentum * b`; `p -= lr * g`.
    Source: Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", in torch's form.

    Args:
        params: groups, or pairs (name, parameter).
        lr, momentum, dampening, weight_decay, nesterov: options of the groups that do not give their own.
        state_dtype: `torch.float32` keeps the momentum, and computes, in float32 for parameters in half precision.

    Raises:
        ValueError: Nesterov's momentum without momentum, or with dampening.
    """

    def __init__(
        self,
        params: Groups,
        *,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        state_dtype: torch.dtype | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, options, state_dtype=state_dtype)
        for group in self.param_groups:
            if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
                raise ValueError(
                    f"nesterov=True with momentum={group['momentum']!r}, dampening={group['dampening']!r}: "
                    "Nesterov's momentum needs a momentum above 0 and a dampening of 0"
                )

    def fresh(self, param: Tensor) -> dict[str, Any]:
        """Nothing; the first gradient becomes `momentum_buffer`."""
        return {}

    def accept(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """`momentum_buffer` as it is: a sum of past gradients, about 1 / (1 - momentum) times as long as their mean."""
        buffer = entry.get("momentum_buffer")
        return None if buffer is None else {"momentum_buffer": buffer}

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[Any]) -> None:
        """One update; the order of operations is torch's, without its change of the gradients under Nesterov."""
        momentum, decay = group["momentum"], group["weight_decay"]
        if decay != 0:
            grads = list(torch._foreach_add(grads, params, alpha=decay))
        if momentum != 0:
            buffers = self._buffers(states, grads, momentum, 1 - group["dampening"])
            if not group["nesterov"]:
                grads = buffers
            elif decay != 0:  # these are no longer the caller's gradients
                torch._foreach_add_(grads, buffers, alpha=momentum)
            elif params[0].is_cpu:  # one temporary at a time: faster where foreach is a loop all the same
                for param, grad, buffer in zip(params, grads, buffers, strict=True):
                    param.add_(grad.add(buffer, alpha=momentum), alpha=-group["lr"])
                return
            else:
                grads = list(torch._foreach_add(grads, buffers, alpha=momentum))
        torch._foreach_add_(params, grads, alpha=-group["lr"])

    def _buffers(self, states: list[Any], grads: list[Tensor], momentum: float, share: float) -> list[Tensor]:
        """The momentum of each parameter, with this update's gradient in it."""
        try:
            buffers: list[Tensor] = [state["momentum_buffer"] for state in states]
        except KeyError:
            for state, grad in zip(states, grads, strict=True):
                if "momentum_buffer" in state:
                    state["momentum_buffer"].mul_(momentum).add_(grad, alpha=share)
                else:
                    state["momentum_buffer"] = grad.detach().clone()
            return [state["momentum_buffer"] for state in states]
        torch._foreach_mul_(buffers, momentum)
        torch._foreach_add_(buffers, grads, alpha=share)
        return buffers
