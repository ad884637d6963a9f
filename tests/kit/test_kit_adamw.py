"""The kit's AdamW against torch's, byte for byte, and against the formula in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from opal.kit import rules

Named = list[tuple[str, torch.nn.Parameter]]
SHAPES = [(7, 5), (5,), (), (0, 3), (4, 2, 3, 3)]


def parameters(dtype: torch.dtype = torch.float32, shapes: list[tuple[int, ...]] = SHAPES) -> Named:
    generator = torch.Generator().manual_seed(1)
    return [
        (f"p{i}", torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)))
        for i, shape in enumerate(shapes)
    ]


def gradients(update: int, named: Named, missing: Callable[[int, int], bool] | None = None) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(100 + update)
    grads: dict[str, Tensor | None] = {}
    for i, (name, param) in enumerate(named):
        grad = torch.randn(param.shape, generator=generator, dtype=param.dtype)
        grads[name] = None if missing is not None and missing(update, i) else grad
    return grads


def torch_step(optimizer: torch.optim.Optimizer, named: Named, grads: dict[str, Tensor | None]) -> None:
    for name, param in named:
        grad = grads[name]
        param.grad = None if grad is None else grad.clone()
    optimizer.step()


def assert_same_bytes(ours: Named, theirs: Named) -> None:
    for (name, mine), (_, other) in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adamw_has_the_bytes_of_torch_foreach(dtype: torch.dtype, weight_decay: float) -> None:
    ours, theirs = parameters(dtype), parameters(dtype)
    rule = rules.AdamW(ours, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=weight_decay)
    reference = torch.optim.AdamW(
        [p for _, p in theirs], lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=weight_decay, foreach=True
    )
    for update in range(1, 13):
        grads = gradients(update, ours)
        rule.step(grads)
        torch_step(reference, theirs, grads)
    assert_same_bytes(ours, theirs)
    assert not torch.equal(ours[0][1], parameters(dtype)[0][1])
    for name, param in theirs:
        assert torch.equal(rule.state[name]["exp_avg_sq"], reference.state[param]["exp_avg_sq"])
        assert rule.state[name]["exp_avg"].dtype == dtype


def test_coupled_weight_decay_has_the_bytes_of_torch_adam() -> None:
    ours, theirs = parameters(), parameters()
    rule = rules.AdamW(ours, lr=0.01, weight_decay=0.1, decoupled=False)
    reference = torch.optim.Adam([p for _, p in theirs], lr=0.01, weight_decay=0.1, foreach=True)
    for update in range(1, 8):
        grads = gradients(update, ours)
        rule.step(grads)
        torch_step(reference, theirs, grads)
    assert_same_bytes(ours, theirs)


def test_a_parameter_without_a_gradient_keeps_its_value_and_its_own_step_count() -> None:
    ours, theirs = parameters(), parameters()
    rule = rules.AdamW(ours, lr=0.01)
    reference = torch.optim.AdamW([p for _, p in theirs], lr=0.01, foreach=True)
    for update in range(1, 13):
        grads = gradients(update, ours, lambda update, i: (update + i) % 3 == 0 or (i == 1 and update < 5))
        before = {name: param.detach().clone() for name, param in ours}
        rule.step(grads)
        torch_step(reference, theirs, grads)
        for name, param in ours:
            assert torch.equal(param, before[name]) or grads[name] is not None
    assert_same_bytes(ours, theirs)
    assert {state["step"] for state in rule.state.values()} == {5, 8}


def test_a_parameter_that_never_has_a_gradient_gets_no_state() -> None:
    ours = parameters()
    rule = rules.AdamW(ours, lr=0.01)
    rule.step(gradients(1, ours, lambda _, i: i == 0))
    rule.step(dict.fromkeys([name for name, _ in ours]))
    assert set(rule.state) == {"p1", "p2", "p3", "p4"}
    assert rule.state["p1"]["step"] == 1


def test_dtypes_may_be_mixed_in_one_group_and_options_differ_between_groups() -> None:
    def mixed() -> Named:
        return [(f"{d}.{n}", p) for d in ("float32", "bfloat16", "complex64") for n, p in parameters(getattr(torch, d))]

    ours, theirs = mixed(), mixed()
    rule = rules.AdamW(
        [{"params": ours[::2], "lr": 0.02, "weight_decay": 0.0}, {"params": ours[1::2], "betas": (0.7, 0.9)}], lr=0.01
    )
    reference = torch.optim.AdamW(
        [
            {"params": [p for _, p in theirs[::2]], "lr": 0.02, "weight_decay": 0.0},
            {"params": [p for _, p in theirs[1::2]], "betas": (0.7, 0.9)},
        ],
        lr=0.01,
        foreach=True,
    )
    for update in range(1, 6):
        for group, other in zip(rule.param_groups, reference.param_groups, strict=True):
            group["lr"] = other["lr"] = group["lr"] * 0.9
        grads = gradients(update, ours)
        rule.step(grads)
        torch_step(reference, theirs, grads)
    assert_same_bytes(ours, theirs)


def test_adamw_follows_the_formula_in_float64() -> None:
    ours = parameters(torch.float64, [(3, 2)])
    start = ours[0][1].detach().clone()
    rule = rules.AdamW(ours, lr=0.05, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.2)
    p, m, v = start, torch.zeros_like(start), torch.zeros_like(start)
    for t in range(1, 6):
        grads = gradients(t, ours)
        g = grads["p0"]
        assert g is not None
        p = p - 0.05 * 0.2 * p
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        p = p - 0.05 * (m / (1 - 0.9**t)) / ((v / (1 - 0.99**t)).sqrt() + 1e-3)
        rule.step(grads)
    torch.testing.assert_close(ours[0][1].detach(), p, rtol=1e-13, atol=1e-13)


def test_float32_state_follows_a_float32_run_and_rounds_each_update_once() -> None:
    low = parameters(torch.bfloat16, [(64, 8)])
    rule = rules.AdamW(low, lr=1e-3, weight_decay=0.1, state_dtype=torch.float32)
    for update in range(1, 9):
        grads = gradients(update, low)
        grad = grads["p0"]
        assert grad is not None
        wide = torch.nn.Parameter(low[0][1].detach().float())
        wide.grad = grad.float()
        reference = torch.optim.AdamW([wide], lr=1e-3, weight_decay=0.1, foreach=True)
        if rule.state:
            reference.state[wide] = {key: torch.as_tensor(value).clone() for key, value in rule.state["p0"].items()}
            reference.state[wide]["step"] = torch.tensor(float(update - 1))
        reference.step()
        rule.step(grads)
        assert torch.equal(low[0][1].detach(), wide.detach().to(torch.bfloat16))
    assert rule.state["p0"]["exp_avg"].dtype == torch.float32
    assert low[0][1].dtype == torch.bfloat16


def test_gradients_are_not_changed() -> None:
    ours = parameters()
    for rule in (rules.AdamW(ours), rules.SGD(ours, momentum=0.9, nesterov=True), rules.SGD(ours, weight_decay=0.1)):
        for update in (1, 2):
            grads = gradients(update, ours)
            rule.step(grads)
            for name, grad in gradients(update, ours).items():
                kept = grads[name]
                assert kept is not None
                assert grad is not None
                assert torch.equal(kept, grad)


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ([torch.zeros(2)], TypeError, "pairs"),
        ([{"params": [torch.zeros(2)], "names": ["a", "b"]}], ValueError, "1 parameters and 2 names"),
        ([("a", torch.zeros(2)), ("a", torch.zeros(2))], ValueError, "'a' is there twice"),
        ([{"params": [("a", torch.zeros(2))], "lr": -1.0}], ValueError, "lr=-1.0"),
        ([{"params": [("a", torch.zeros(2))], "lr": torch.tensor(0.1)}], ValueError, "plain number"),
    ],
)
def test_wrong_groups_are_refused_in_a_sentence(params: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        rules.AdamW(params)  # type: ignore[arg-type]


def test_a_rule_without_parameters_makes_updates_of_nothing() -> None:
    rule = rules.AdamW([], lr=0.1)
    rule.step({})
    assert rule.state_dict()["state"] == {}
