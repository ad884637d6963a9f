"""Muon: momentum, orthogonalised for each matrix; matrices of one shape are computed together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from opal.kit.rules.base import Rule
from opal.kit.rules.groups import Groups

__all__ = ["Muon", "orthogonalized"]

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ADJUSTMENTS = ("original", "match_rms_adamw")

# How many elements are orthogonalised at a time: bounds the memory for temporaries in a model with many large matrices.
_STACK_ELEMENTS = 1 << 26


class Muon(Rule):
    """Muon for hidden matrices; `torch.optim.Muon` up to the rounding of batched products in bfloat16.

    With g the gradient: `m += (1 - momentum) * (g - m)`, `u = m`, or under Nesterov `u = g + momentum * (m - g)`;
    `p *= 1 - lr * weight_decay`; `p -= lr * scale * O(u)`, where `O` brings all singular values near 1.
    Sources: Jordan et al. 2024, kellerjordan.github.io/posts/muon; the second scale, Liu et al. 2025, arXiv:2502.16982.

    Meant for the matrices inside a model (`group_by_kind(...)["hidden"]`); embeddings, heads and vectors do better with
    AdamW. Whole matrices only; no complex parameters, no sparse gradients.

    Args:
        params: groups, or pairs (name, parameter), of two dimensions.
        lr, weight_decay, momentum, nesterov, eps, ns_steps: options of the groups that do not give their own.
        ns_coefficients: a, b, c of the iteration `x = a x + (b xx' + c (xx')²) x`, which is run `ns_steps` times.
        adjust_lr_fn: the scale for a matrix of A rows and B columns. `"original"`: `sqrt(max(1, A / B))`;
            `"match_rms_adamw"`: `0.2 * sqrt(max(A, B))`, the size of AdamW's updates, so that its rates fit.
        flatten: take parameters of more dimensions (convolutions) as matrices of `shape[0]` rows.
        ns_dtype: what the iteration computes in.
        state_dtype: `torch.float32` keeps the momentum in float32 for parameters in half precision.

    Raises:
        ValueError: a parameter is no matrix, or complex; an `adjust_lr_fn` that does not exist.
    """

    def __init__(
        self,
        params: Groups,
        *,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str = "original",
        flatten: bool = False,
        ns_dtype: torch.dtype = torch.bfloat16,
        state_dtype: torch.dtype | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, options, state_dtype=state_dtype)
        self.ns_dtype = ns_dtype
        for group in self.param_groups:
            if group["adjust_lr_fn"] not in ADJUSTMENTS:
                raise ValueError(f"adjust_lr_fn={group['adjust_lr_fn']!r}: it is one of {', '.join(ADJUSTMENTS)}")
            for name, param in zip(group["names"], group["params"], strict=True):
                _check_matrix(name, param, flatten=flatten)

    def fresh(self, param: Tensor) -> dict[str, Any]:
        """A `momentum_buffer` of zeros."""
        return {"momentum_buffer": torch.zeros_like(param, memory_format=torch.preserve_format)}

    def accept(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """`momentum_buffer`, or else AdamW's `exp_avg`: both are running means of gradients.

        SGD's `momentum_buffer` is a sum. It has the right direction, but is about `1 / (1 - momentum)` times too
        long, so that new gradients count too little for the first updates: multiply it by that `1 - momentum` before.
        """
        buffer = entry.get("momentum_buffer")
        buffer = entry.get("exp_avg") if buffer is None else buffer
        return None if buffer is None else {"momentum_buffer": buffer}

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[Any]) -> None:
        """One update of all matrices of a lot."""
        lr, momentum = group["lr"], group["momentum"]
        buffers = [state["momentum_buffer"] for state in states]
        torch._foreach_lerp_(buffers, grads, 1 - momentum)
        directions = torch._foreach_lerp(grads, buffers, momentum) if group["nesterov"] else buffers
        torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
        for members in _stacks(params):
            matrices = [directions[index].flatten(1) for index in members]
            steps = orthogonalized(
                matrices,
                coefficients=group["ns_coefficients"],
                steps=group["ns_steps"],
                eps=group["eps"],
                dtype=self.ns_dtype,
            )
            targets = [params[index] for index in members]
            for tall in (False, True):
                chosen = [i for i, matrix in enumerate(matrices) if (matrix.shape[0] > matrix.shape[1]) is tall]
                if chosen:
                    scale = _scale(group["adjust_lr_fn"], *matrices[chosen[0]].shape)
                    shaped = [steps[i].to(targets[i].dtype).view(targets[i].shape) for i in chosen]
                    torch._foreach_add_([targets[i] for i in chosen], shaped, alpha=-(lr * scale))


def orthogonalized(
    matrices: list[Tensor],
    *,
    coefficients: tuple[float, float, float] = COEFFICIENTS,
    steps: int = 5,
    eps: float = 1e-7,
    dtype: torch.dtype = torch.bfloat16,
) -> list[Tensor]:
    """Matrices of one shape, transposes of it included, with all singular values brought near 1, as new tensors.

    The quintic Newton-Schulz iteration of Muon on the stacked matrices, each divided by its Frobenius norm first.
    With the default coefficients it does not converge: after 5 steps singular values lie between about 0.7 and 1.2,
    the smallest excepted.

    Returns:
        As many matrices, contiguous, of `dtype`, in the same order, with their own rows and columns.
    """
    a, b, c = coefficients
    tall = [matrix.shape[0] > matrix.shape[1] for matrix in matrices]
    x = torch.stack([m.to(dtype).mT if is_tall else m.to(dtype) for m, is_tall in zip(matrices, tall, strict=True)])
    x /= x.norm(dim=(1, 2), keepdim=True).clamp_(min=eps)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return [m.mT.contiguous() if is_tall else m for m, is_tall in zip(x.unbind(), tall, strict=True)]


def _stacks(params: list[Tensor]) -> Iterator[list[int]]:
    """Indices of the matrices that are computed together: one shape up to transposition, bounded in size."""
    shapes: dict[tuple[int, int], list[int]] = {}
    for index, param in enumerate(params):
        if param.numel():
            rows = param.shape[0]
            columns = param.numel() // rows
            shapes.setdefault((min(rows, columns), max(rows, columns)), []).append(index)
    for (short, long), members in shapes.items():
        most = max(1, _STACK_ELEMENTS // (short * long))
        for start in range(0, len(members), most):
            yield members[start : start + most]


def _scale(adjustment: str, rows: int, columns: int) -> float:
    if adjustment == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def _check_matrix(name: str, param: Tensor, *, flatten: bool) -> None:
    shape = tuple(param.shape)
    if param.is_complex():
        raise ValueError(f"{name!r} is complex; Muon takes real matrices, give it to AdamW or SGD")
    if len(shape) < 2 or (len(shape) > 2 and not flatten):
        remedy = "flatten=True takes it as a matrix of shape[0] rows" if len(shape) > 2 else "give it to AdamW or SGD"
        raise ValueError(f"{name!r} has the shape {shape}; Muon takes matrices, {remedy}")
