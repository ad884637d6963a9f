"""The kit's SGD against torch's, byte for byte, and against the formula in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from opal.kit import rules

Named = list[tuple[str, torch.nn.Parameter]]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
]


def parameters(dtype: torch.dtype) -> Named:
    generator = torch.Generator().manual_seed(2)
    shapes: list[tuple[int, ...]] = [(6, 4), (4,), (), (0, 3)]
    return [
        (f"p{i}", torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)))
        for i, shape in enumerate(shapes)
    ]


def gradients(update: int, named: Named) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(200 + update)
    grads: dict[str, Tensor | None] = {
        name: torch.randn(param.shape, generator=generator, dtype=param.dtype) for name, param in named
    }
    if update % 3 == 1:
        grads["p1"] = None
    return grads


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_sgd_has_the_bytes_of_torch_foreach(options: dict[str, Any], dtype: torch.dtype) -> None:
    ours, theirs = parameters(dtype), parameters(dtype)
    rule = rules.SGD(ours, lr=0.05, **options)
    reference = torch.optim.SGD([p for _, p in theirs], lr=0.05, foreach=True, **options)
    for update in range(1, 11):
        grads = gradients(update, ours)
        rule.step(grads)
        for name, param in theirs:
            grad = grads[name]
            param.grad = None if grad is None else grad.clone()
        reference.step()
    for (name, mine), (_, other) in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other), name
    assert not torch.equal(ours[0][1], parameters(dtype)[0][1])


def test_sgd_follows_the_formula_in_float64() -> None:
    ours = parameters(torch.float64)[:1]
    p = ours[0][1].detach().clone()
    rule = rules.SGD(ours, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    b: Tensor | None = None
    for update in range(1, 6):
        grads = gradients(update, ours)
        g = grads["p0"]
        assert g is not None
        g = g + 0.01 * p
        b = g if b is None else 0.9 * b + g
        p = p - 0.1 * (g + 0.9 * b)
        rule.step(grads)
    torch.testing.assert_close(ours[0][1].detach(), p, rtol=1e-13, atol=1e-13)


def test_sgd_without_momentum_keeps_no_state_and_takes_sparse_gradients() -> None:
    table = torch.nn.Parameter(torch.ones(4, 2))
    rule = rules.SGD([("table", table)], lr=0.5)
    grad = torch.sparse_coo_tensor(
        torch.tensor([[1, 1]]), torch.tensor([[1.0, 2.0], [1.0, 0.0]]), (4, 2), check_invariants=True
    )
    rule.step({"table": grad})
    assert table.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    assert rule.state == {"table": {}}


def test_float32_state_keeps_the_momentum_of_bfloat16_parameters_in_float32() -> None:
    param = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    rule = rules.SGD([("p", param)], lr=1.0, momentum=0.9, state_dtype=torch.float32)
    grad = torch.full((3,), 2.0**-9, dtype=torch.bfloat16)
    for _ in range(2):
        rule.step({"p": grad})
    buffer = rule.state["p"]["momentum_buffer"]
    assert buffer.dtype == torch.float32
    assert buffer.tolist() == pytest.approx([1.9 * 2.0**-9] * 3, rel=1e-6)


@pytest.mark.parametrize("options", [{"nesterov": True}, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}])
def test_nesterov_without_momentum_or_with_dampening_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="momentum above 0 and a dampening of 0"):
        rules.SGD(parameters(torch.float32), **options)
