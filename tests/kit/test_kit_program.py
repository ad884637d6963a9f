"""The program in the kit's own documentation, run as it stands; what the kit imports."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import torch
from torch import nn

import opal.kit
from opal.kit import carry, rules


def documented_program() -> dict[str, Any]:
    found = re.search(r"```python\n(.*?)```", opal.kit.__doc__ or "", re.DOTALL)
    assert found is not None
    space: dict[str, Any] = {}
    exec(compile(found.group(1), "updater.py", "exec"), space)
    return space


def gradients(model: nn.Module) -> dict[str, torch.Tensor | None]:
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(8))
    model.zero_grad()
    model(x).square().mean().backward()
    return {name: param.grad for name, param in model.named_parameters()}


def test_the_documented_program_takes_over_from_the_script_s_optimizer_and_trains() -> None:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    named = list(model.named_parameters())
    script = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(5):
        gradients(model)
        script.step()
    starting = type("Starting", (), {})()
    starting.optimizers = [script]

    updater = documented_program()["build"](named, previous=starting, spec={"total_updates": 40})
    assert updater.adamw.state["0.bias"]["step"] == 5
    assert torch.equal(updater.muon.state["2.weight"]["momentum_buffer"], script.state[model[2].weight]["exp_avg"])
    assert sorted(name for group in updater.muon.param_groups for name in group["names"]) == ["0.weight", "2.weight"]

    grads = gradients(model)
    start = sum(float(g.square().sum()) for g in grads.values() if g is not None)
    for update in range(6, 41):
        updater.step(gradients(model), update)
    end = sum(float(g.square().sum()) for g in gradients(model).values() if g is not None)
    assert end < start / 4
    assert [group["lr"] / group["peak"] for group in updater.param_groups] == [updater.param_groups[0]["lr"] / 0.02] * 2
    assert 0 < updater.param_groups[0]["lr"] < 0.02 / 20

    again = documented_program()["build"](named, previous=updater, spec={"total_updates": 40})
    assert again.adamw.state["0.bias"]["step"] == 40
    restored = documented_program()["build"](named, spec={"total_updates": 40})
    restored.load_state_dict(updater.state_dict())
    carried = carry.from_updater(restored, named)
    assert torch.equal(carried["0.weight"]["momentum_buffer"], updater.muon.state["0.weight"]["momentum_buffer"])


def test_a_rule_of_a_program_s_own_needs_three_short_methods() -> None:
    class SignOfMomentum(rules.Rule):
        def __init__(self, params: Any, *, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def fresh(self, param: torch.Tensor) -> dict[str, Any]:
            return {"momentum": torch.zeros_like(param)}

        def accept(self, entry: Any) -> dict[str, Any] | None:
            return {"momentum": entry["exp_avg"]} if "exp_avg" in entry else None

        def update(self, group: Any, params: Any, grads: Any, states: Any) -> None:
            momenta = [state["momentum"] for state in states]
            torch._foreach_lerp_(momenta, grads, 0.1)
            torch._foreach_add_(params, torch._foreach_sign(momenta), alpha=-group["lr"])

    param = nn.Parameter(torch.zeros(2))
    rule = SignOfMomentum([("p", param)], lr=0.5)
    rule.load({"p": {"exp_avg": torch.tensor([1.0, -1.0])}})
    rule.step({"p": torch.tensor([-1.0, -1.0])})
    assert param.tolist() == [-0.5, 0.5]


def test_the_kit_imports_nothing_else_of_opal() -> None:
    code = (
        "import sys, opal.kit; allowed = ('opal.kit', 'opal._version'); "
        "print(sorted(m for m in sys.modules if m.startswith('opal.') and not m.startswith(allowed)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "[]"
