"""The short programs in the system prompt work as they stand there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from opal.config import RunConfig
from opal.prompts import patterns
from opal.prompts.system_prompt import render_system_prompt
from opal.types import GroupFacts, RunFacts


def space(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch}
    exec(source, names)
    return names


def run_of(facts: RunFacts, optimizer: str, options: dict[str, Any]) -> RunFacts:
    group = GroupFacts(index=0, optimizer=optimizer, options=options, names=())
    return dataclasses.replace(facts, schedulers=(), groups=(group,))


ADAMW = {"lr": 0.02, "betas": [0.8, 0.9], "eps": 1e-8, "weight_decay": 0.3}
SGD = {"lr": 0.1, "momentum": 0.9, "dampening": 0, "weight_decay": 0.01, "nesterov": False}


@pytest.mark.parametrize(("name", "options"), [("AdamW", ADAMW), ("SGD", SGD)])
def test_the_schedule_takes_over_state_and_continues_a_cosine(
    gpt_facts: RunFacts, name: str, options: dict[str, Any]
) -> None:
    source = patterns.schedule(run_of(gpt_facts, name, options))
    results = []
    for takes_over in (None, 6):
        param = torch.nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4))
        kind = {"AdamW": torch.optim.AdamW, "SGD": torch.optim.SGD}[name]
        optimizer = kind([param], **options)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
        updater = None
        for update in range(1, 21):
            param.grad = (param.detach() * update).sin()
            if update == takes_over:
                previous = SimpleNamespace(optimizers=[optimizer])
                updater = space(source)["build"]([("w", param)], previous, {"total_updates": 20})
            if updater is None:
                optimizer.step()
                scheduler.step()
            else:
                with torch.no_grad():
                    updater.step({"w": param.grad}, update)
        results.append(param.detach().clone())
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-7)


def test_for_a_rule_that_the_kit_lacks_the_schedule_is_shown_with_adamw(gpt_facts: RunFacts) -> None:
    source = patterns.schedule(run_of(gpt_facts, "RMSprop", {"lr": 0.25}))
    param = torch.nn.Parameter(torch.ones(3))
    updater = space(source)["build"]([("w", param)], None, {"total_updates": 10})
    updater.step({"w": torch.ones(3)}, 1)
    torch.testing.assert_close(param.detach(), torch.full((3,), 1 - 0.25 * 0.01 - 0.25), rtol=1e-4, atol=1e-4)


def test_the_feedback_rule_shrinks_a_spike_to_twice_the_usual_norm() -> None:
    step = space(patterns.FEEDBACK)["step"]
    seen: list[float] = []
    rule = SimpleNamespace(step=lambda grads: seen.append(float(grads["w"].norm())))
    updater = SimpleNamespace(usual=None, rule=rule)
    for norm in (1.0, 1.0, 10.0):
        step(updater, {"w": torch.tensor([norm, 0.0]), "unused": None}, 1)
    assert seen == pytest.approx([1.0, 1.0, 2 * 1.45])


def test_the_wake_up_comes_once_for_one_rise() -> None:
    analyze = space(patterns.WAKE)["analyze"]
    memory: dict[str, Any] = {}
    woken = []
    for losses in ([3.0, 2.0], [2.2, float("nan")], [2.9, 2.9], [2.9, 3.0], []):
        result = analyze(SimpleNamespace(losses=losses), memory)
        woken.append(None if result is None else result["wake"])
    assert woken == [None, None, "mean loss 2.900, it was 2.200", None, None]


def test_the_prompt_shows_them(make_config: Callable[..., RunConfig], gpt_facts: RunFacts) -> None:
    text = render_system_prompt(make_config(), gpt_facts)
    blocks = re.findall(r"```python\n(.*?)\n```", text, re.DOTALL)
    assert {patterns.schedule(gpt_facts), patterns.FEEDBACK, patterns.WAKE} <= set(blocks)
