"""The kit's Muon against torch's, matrix by matrix, and its iteration against singular values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from opal.kit import rules
from opal.kit.rules import muon as muon_file
from opal.kit.rules.muon import orthogonalized

Named = list[tuple[str, torch.nn.Parameter]]
SHAPES = [(48, 16), (16, 48), (16, 16), (16, 48), (48, 16), (8, 40), (16, 16)]


def parameters(dtype: torch.dtype = torch.float32) -> Named:
    generator = torch.Generator().manual_seed(3)
    return [
        (f"m{i}", torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)))
        for i, shape in enumerate(SHAPES)
    ]


def gradients(update: int, named: Named) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(300 + update)
    grads: dict[str, Tensor | None] = {
        name: torch.randn(param.shape, generator=generator).to(param.dtype) for name, param in named
    }
    if update == 3:
        grads["m1"] = None
    return grads


def run_both(options: dict[str, Any], updates: int = 6) -> tuple[Named, Named]:
    ours, theirs = parameters(), parameters()
    rule = rules.Muon(ours, **options)
    reference = torch.optim.Muon([p for _, p in theirs], **options)
    for update in range(1, updates + 1):
        grads = gradients(update, ours)
        rule.step(grads)
        for name, param in theirs:
            grad = grads[name]
            param.grad = None if grad is None else grad.clone()
        reference.step()
    return ours, theirs


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.02},
        {"lr": 0.02, "nesterov": False, "weight_decay": 0.0},
        {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw", "momentum": 0.8},
        {"lr": 0.02, "adjust_lr_fn": "original", "ns_steps": 3, "ns_coefficients": (3.0, -4.0, 1.8)},
    ],
)
def test_muon_follows_torch_within_the_rounding_of_bfloat16_products(options: dict[str, Any]) -> None:
    ours, theirs = run_both(options)
    for (name, mine), (_, other), (_, start) in zip(ours, theirs, parameters(), strict=True):
        moved = torch.linalg.norm(other - start)
        assert torch.linalg.norm(mine - other) < 0.01 * moved, name


def test_one_wrong_coefficient_or_scale_would_be_seen_by_that_tolerance() -> None:
    right, _ = run_both({"lr": 0.02})
    for wrong in ({"ns_coefficients": (3.4445, -4.7750, 2.1)}, {"momentum": 0.9}, {"ns_steps": 4}):
        other, _ = run_both({"lr": 0.02, **wrong})
        moved = [torch.linalg.norm(m - s) for (_, m), (_, s) in zip(right, parameters(), strict=True)]
        apart = [torch.linalg.norm(m - o) for (_, m), (_, o) in zip(right, other, strict=True)]
        assert max(a / m for a, m in zip(apart, moved, strict=True)) > 0.02, wrong


def test_the_momentum_is_torch_s_to_the_byte() -> None:
    ours, theirs = parameters(), parameters()
    rule, reference = rules.Muon(ours), torch.optim.Muon([p for _, p in theirs])
    for update in range(1, 5):
        grads = gradients(update, ours)
        rule.step(grads)
        for name, param in theirs:
            param.grad = grads[name]
        reference.step()
    for name, param in theirs:
        assert torch.equal(rule.state[name]["momentum_buffer"], reference.state[param]["momentum_buffer"])


def test_the_iteration_follows_its_polynomial_on_singular_values() -> None:
    generator = torch.Generator().manual_seed(4)
    matrices = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((5, 9), (9, 5), (5, 9))]
    for matrix, result in zip(matrices, orthogonalized(matrices, dtype=torch.float64), strict=True):
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        values = values / values.norm()
        for _ in range(5):
            values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
        torch.testing.assert_close(result, left @ torch.diag(values) @ right, rtol=1e-10, atol=1e-10)
        assert result.is_contiguous()


@pytest.mark.parametrize(
    ("adjustment", "scales"),
    [("original", [math.sqrt(3), 1.0]), ("match_rms_adamw", [0.2 * math.sqrt(48), 0.2 * math.sqrt(48)])],
)
def test_the_step_is_scaled_by_the_shape(adjustment: str, scales: list[float]) -> None:
    named = parameters()[:2]
    rule = rules.Muon(named, lr=0.5, weight_decay=0.0, momentum=0.0, adjust_lr_fn=adjustment, ns_dtype=torch.float32)
    grads = gradients(1, named)
    before = [param.detach().clone() for _, param in named]
    rule.step(grads)
    for (name, param), start, scale in zip(named, before, scales, strict=True):
        grad = grads[name]
        assert grad is not None
        expected = start - 0.5 * scale * orthogonalized([grad], dtype=torch.float32)[0]
        torch.testing.assert_close(param.detach(), expected, rtol=1e-5, atol=1e-5)


def test_computing_in_small_stacks_changes_only_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    together, _ = run_both({"lr": 0.02, "weight_decay": 0.0}, updates=2)
    monkeypatch.setattr(muon_file, "_STACK_ELEMENTS", 1)
    apart, _ = run_both({"lr": 0.02, "weight_decay": 0.0}, updates=2)
    for (_, one), (_, other), (_, start) in zip(together, apart, parameters(), strict=True):
        assert torch.linalg.norm(one - other) < 0.01 * torch.linalg.norm(one - start)


def test_convolutions_are_flattened_when_asked() -> None:
    kernel = torch.nn.Parameter(torch.zeros(4, 3, 2, 2))
    grad = torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(5))
    matrix = torch.nn.Parameter(torch.zeros(4, 12))
    rules.Muon([("kernel", kernel)], flatten=True).step({"kernel": grad})
    rules.Muon([("matrix", matrix)]).step({"matrix": grad.flatten(1)})
    assert torch.equal(kernel.flatten(1), matrix)
    assert kernel.abs().sum() > 0


def test_bfloat16_and_empty_matrices_are_taken() -> None:
    named = [*parameters(torch.bfloat16), ("empty", torch.nn.Parameter(torch.zeros(0, 4)))]
    rule = rules.Muon(named, lr=0.1, state_dtype=torch.float32)
    before = named[0][1].detach().clone()
    rule.step(gradients(1, named))
    assert rule.state["m0"]["momentum_buffer"].dtype == torch.float32
    assert named[0][1].dtype == torch.bfloat16
    assert not torch.equal(before, named[0][1])
    assert torch.isfinite(named[0][1]).all()


def test_a_gradient_of_zeros_leaves_only_weight_decay() -> None:
    param = torch.nn.Parameter(torch.ones(3, 2))
    rules.Muon([("p", param)], lr=0.1, weight_decay=0.5).step({"p": torch.zeros(3, 2)})
    torch.testing.assert_close(param.detach(), torch.full((3, 2), 0.95))


@pytest.mark.parametrize(
    ("param", "options", "words"),
    [
        (torch.zeros(3), {}, "has the shape .3,.*AdamW or SGD"),
        (torch.zeros(3, 2, 2), {}, "flatten=True"),
        (torch.zeros(3, 2, dtype=torch.complex64), {}, "complex"),
        (torch.zeros(3, 2), {"adjust_lr_fn": "rms"}, "original, match_rms_adamw"),
    ],
)
def test_what_is_no_matrix_is_refused(param: Tensor, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rules.Muon([("p", param)], **options)
