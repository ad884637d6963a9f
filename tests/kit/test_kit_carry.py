"""State that goes from one rule to the next, by name and as a copy; checkpoints of rules."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from opal.kit import carry, rules

Named = list[tuple[str, torch.nn.Parameter]]


def parameters(dtype: torch.dtype = torch.float32) -> Named:
    generator = torch.Generator().manual_seed(6)
    shapes = {"a.weight": (6, 4), "a.bias": (6,), "b.weight": (3, 6)}
    return [(n, torch.nn.Parameter(torch.randn(s, generator=generator).to(dtype))) for n, s in shapes.items()]


def gradients(update: int, named: Named) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(600 + update)
    return {name: torch.randn(param.shape, generator=generator).to(param.dtype) for name, param in named}


def torch_updates(optimizer: torch.optim.Optimizer, named: Named, updates: range) -> None:
    for update in updates:
        for (_, param), grad in zip(named, gradients(update, named).values(), strict=True):
            param.grad = grad
        optimizer.step()


def digest(named: Named) -> list[list[float]]:
    return [param.detach().flatten().tolist() for _, param in named]


@pytest.mark.parametrize(
    ("make_torch", "make_rule"),
    [
        (lambda p: torch.optim.AdamW(p, lr=0.02, foreach=True), lambda n: rules.AdamW(n, lr=0.02)),
        (
            lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, foreach=True),
            lambda n: rules.SGD(n, lr=0.02, momentum=0.9),
        ),
    ],
)
def test_a_rule_goes_on_from_torch_s_optimizer_with_the_same_bytes(make_torch: Any, make_rule: Any) -> None:
    plain, ours = parameters(), parameters()
    optimizer = make_torch([p for _, p in plain])
    torch_updates(optimizer, plain, range(1, 21))

    first = make_torch([p for _, p in ours])
    torch_updates(first, ours, range(1, 11))
    kept = {name: {k: torch.as_tensor(v).clone() for k, v in first.state[p].items()} for name, p in ours}
    rule = make_rule(ours)
    taken = rule.load(carry.from_optimizer(first, ours))
    for update in range(11, 21):
        rule.step(gradients(update, ours))

    assert taken == [name for name, _ in ours]
    assert digest(ours) == digest(plain)
    for name, param in ours:
        for key, value in kept[name].items():
            assert torch.equal(torch.as_tensor(first.state[param][key]), value), (name, key)


def test_from_optimizer_gives_plain_step_counts_and_leaves_out_what_has_no_state() -> None:
    named = parameters()
    optimizer = torch.optim.AdamW([p for _, p in named])
    named[0][1].grad = torch.ones(6, 4)
    optimizer.step()
    carried = carry.from_optimizer(optimizer, named)
    assert list(carried) == ["a.weight"]
    assert carried["a.weight"]["step"] == 1
    assert type(carried["a.weight"]["step"]) is int
    carried["a.weight"]["exp_avg"].zero_()
    assert optimizer.state[named[0][1]]["exp_avg"].abs().sum() > 0


def test_loading_copies_so_that_two_rules_share_nothing() -> None:
    named = parameters()
    first = rules.AdamW(named)
    first.step(gradients(1, named))
    second = rules.AdamW(named)
    second.load(first.state)
    second.step(gradients(2, named))
    assert first.state["a.weight"]["step"] == 1
    assert second.state["a.weight"]["step"] == 2
    assert not torch.equal(first.state["a.weight"]["exp_avg"], second.state["a.weight"]["exp_avg"])


def test_muon_starts_from_adamw_s_mean_and_prefers_a_momentum() -> None:
    named = parameters()[::2]
    adamw = rules.AdamW(named)
    adamw.step(gradients(1, named))
    muon = rules.Muon(named)
    assert muon.load(carry.from_rule(adamw)) == ["a.weight", "b.weight"]
    assert set(muon.state["a.weight"]) == {"momentum_buffer"}
    assert torch.equal(muon.state["a.weight"]["momentum_buffer"], adamw.state["a.weight"]["exp_avg"])
    both = {"a.weight": {"exp_avg": torch.zeros(6, 4), "momentum_buffer": torch.ones(6, 4)}}
    assert muon.load(both) == ["a.weight"]
    assert torch.equal(muon.state["a.weight"]["momentum_buffer"], torch.ones(6, 4))


def test_what_does_not_fit_is_left_alone() -> None:
    named = parameters()
    adamw = rules.AdamW(named)
    full = {"exp_avg": torch.zeros(6, 4), "exp_avg_sq": torch.zeros(6, 4), "step": 3}
    assert adamw.load({"a.bias": full, "b.weight": {"momentum_buffer": torch.zeros(3, 6)}, "elsewhere": full}) == []
    assert adamw.load({"a.weight": {"exp_avg": torch.zeros(6, 4), "step": 3}}) == []
    assert adamw.load({"a.weight": full}) == ["a.weight"]
    assert rules.SGD(named, momentum=0.9).load({"a.weight": {"momentum_buffer": None}}) == []
    assert list(adamw.state) == ["a.weight"]


def test_state_takes_the_dtype_that_the_rule_keeps_it_in() -> None:
    carried = {"a.weight": {"momentum_buffer": torch.full((6, 4), 1 / 3)}}
    named = parameters(torch.bfloat16)
    for state_dtype, expected in ((None, torch.bfloat16), (torch.float32, torch.float32)):
        rule = rules.SGD(named, momentum=0.9, state_dtype=state_dtype)
        rule.load(carried)
        assert rule.state["a.weight"]["momentum_buffer"].dtype == expected


def test_an_earlier_updater_is_searched_for_rules_and_optimizers() -> None:
    named = parameters()
    adamw, sgd = rules.AdamW(named[:1]), rules.SGD(named[1:2], momentum=0.9)
    torch_optimizer = torch.optim.AdamW([named[2][1]])
    torch_updates(torch_optimizer, named, range(1, 3))
    for update in (1, 2):
        adamw.step(gradients(update, named))
        sgd.step(gradients(update, named))
    parts = SimpleNamespace(rules={"first": [adamw]}, other=sgd)
    previous = SimpleNamespace(parts=parts, optimizers=[torch_optimizer], named_params=named, again=adamw)
    carried = carry.from_updater(previous, named)
    assert {name: sorted(entry) for name, entry in carried.items()} == {
        "a.weight": ["exp_avg", "exp_avg_sq", "step"],
        "a.bias": ["momentum_buffer"],
        "b.weight": ["exp_avg", "exp_avg_sq", "step"],
    }
    carried["a.weight"]["exp_avg"].zero_()
    assert adamw.state["a.weight"]["exp_avg"].abs().sum() > 0


def test_no_updater_has_no_state_and_a_hidden_rule_is_found_in_the_state_dict() -> None:
    named = parameters()
    rule = rules.AdamW(named)
    rule.step(gradients(1, named))

    class Slotted:
        __slots__ = ()

        def state_dict(self) -> dict[str, Any]:
            return {"update": 1, "parts": [{"adamw": rule.state_dict()}]}

    assert carry.from_updater(None, named) == {}
    carried = carry.from_updater(Slotted(), named)
    assert carried["b.weight"]["step"] == 1
    assert carried["b.weight"]["exp_avg"] is not rule.state["b.weight"]["exp_avg"]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: rules.AdamW([{"params": n[:1], "lr": 0.03}, {"params": n[1:]}], lr=0.01, betas=(0.8, 0.9)),
        lambda n: rules.SGD(n, lr=0.01, momentum=0.9, dampening=0.1),
        lambda n: rules.Muon(n[::2], lr=0.01, ns_coefficients=(3.0, -4.0, 1.8)),
    ],
)
def test_a_rule_goes_on_from_its_state_dict_with_the_same_bytes(make: Any) -> None:
    plain = parameters()
    through = make(plain)
    for update in range(1, 9):
        if update > 3:
            through.param_groups[0]["lr"] = 0.05
        through.step(gradients(update, plain))

    named = parameters()
    first = make(named)
    for update in range(1, 5):
        if update > 3:
            first.param_groups[0]["lr"] = 0.05
        first.step(gradients(update, named))
    saved = first.state_dict()
    shape = json.dumps(
        saved, default=lambda value: f"tensor {tuple(value.shape)}" if isinstance(value, Tensor) else 1 / 0
    )
    assert json.loads(shape)["param_groups"][0]["lr"] == 0.05

    second = make(named)
    second.load_state_dict(saved)
    for update in range(5, 9):
        second.step(gradients(update, named))
    assert digest(named) == digest(plain)
    assert second.param_groups[0]["lr"] == 0.05
    assert [{k: v for k, v in g.items() if k != "params"} for g in second.param_groups] == [
        {k: v for k, v in g.items() if k != "params"} for g in through.param_groups
    ]


def test_a_state_dict_of_other_parameters_is_refused_and_changes_nothing() -> None:
    named = parameters()
    rule = rules.SGD(named, momentum=0.9)
    rule.step(gradients(1, named))
    before = dict(rule.state)
    other = rules.SGD(named[:2], momentum=0.9).state_dict()
    with pytest.raises(ValueError, match="same groups"):
        rule.load_state_dict(other)
    wrong_shape = rule.state_dict()
    wrong_shape["state"]["a.bias"] = {"momentum_buffer": torch.zeros(2)}
    with pytest.raises(ValueError, match=r"'a.bias' has the shapes \[\(2,\)\], it has \(6,\)"):
        rule.load_state_dict(wrong_shape)
    wrong_name = rule.state_dict()
    wrong_name["state"]["elsewhere"] = {}
    with pytest.raises(ValueError, match="'elsewhere'"):
        rule.load_state_dict(wrong_name)
    assert rule.state == before


def test_a_group_keeps_plain_values_of_a_program_s_own_and_drops_others() -> None:
    named = parameters()
    rule = rules.AdamW([{"params": named, "peak": 0.5, "name": "all", "span": (1, 2), "schedule": print}])
    group = rule.state_dict()["param_groups"][0]
    assert group["peak"] == 0.5
    assert group["span"] == [1, 2]
    assert "schedule" not in group
    assert "params" not in group
