"""The system prompt: what concerns this run is in it, nothing else is, and it keeps its size."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from opal.config import NOT_BUILT, RunConfig
from opal.prompts.budget import tokens
from opal.prompts.system_prompt import render_system_prompt
from opal.types import GroupFacts, ModelFacts, RunFacts, SchedulerFacts

MakeConfig = Callable[..., RunConfig]
MakeFacts = Callable[..., RunFacts]
BOTH = pytest.mark.parametrize("prompt", ["neutral", "aggressive"])


@BOTH
def test_the_prompt_of_the_demo_keeps_its_size(make_config: MakeConfig, gpt_facts: RunFacts, prompt: str) -> None:
    assert tokens(render_system_prompt(make_config(prompt=prompt), gpt_facts)) <= 6_000


@BOTH
def test_the_prompt_of_any_run_keeps_its_size(make_config: MakeConfig, make_facts: MakeFacts, prompt: str) -> None:
    shapes = [(f"module_{'x' * 60}_{index:05d}.wéight", (index + 1, 7, 3)) for index in range(5_000)]
    facts = make_facts(
        shapes,
        groups=tuple(
            GroupFacts(index=index, optimizer="AdamW", options={"lr": 1 / (index + 3), **{f"option{n}": "y" * 90
                       for n in range(20)}}, names=(shapes[index][0],)) for index in range(1_000)
        ),
        schedulers=tuple(SchedulerFacts(name="LambdaLR", settings={"table": "z" * 5_000}) for _ in range(50)),
        model=ModelFacts(name="Huge", summary="(layer): Linear\n" * 50_000, sources={"model.py": ""}),
        hardware="h" * 5_000,
        world_size=8,
    )  # fmt: skip
    config = make_config(prompt=prompt, goal="g" * 9_000, task_facts="日本" * 9_000, clip_grad_norm=1.0,
                         blocking="auto", activations=["layer"] * 500, epochs=3, batch_size="b" * 900)  # fmt: skip
    text = render_system_prompt(config, facts)
    assert tokens(text) <= 12_000
    assert "reference/starting_optimizer.txt" in text.split("## Parameters")[1]
    assert "whole in reference/task.txt" in text
    assert "whole in reference/model.txt" in text


@BOTH
def test_the_run_is_described_as_it_is(make_config: MakeConfig, gpt_facts: RunFacts, prompt: str) -> None:
    config = make_config(prompt=prompt, task_facts="The text is Python source.", trial_steps=33)
    text = render_system_prompt(config, gpt_facts)
    assert config.task.goal in text
    assert "The text is Python source." in text
    assert "Length: 400 updates." in text
    assert "group 0: AdamW, 53 tensors; lr 0.001, betas (0.9, 0.95), eps 1e-08, weight_decay 0.1" in text
    assert "CosineAnnealingLR(T_max=400, eta_min=0)" in text
    assert "first 33 updates of a new updater are its trial" in text
    assert "checks, every 10 updates" in text
    assert "53 tensors with 875,264 numbers, all float32 on cpu." in text
    assert "blocks.N.attention.qkv.weight | 4 | 384x128 | 196,608" in text


@BOTH
def test_nothing_is_promised_that_is_not_built(make_config: MakeConfig, gpt_facts: RunFacts, prompt: str) -> None:
    config = make_config(prompt=prompt)
    assert set(config.inactive) == set(NOT_BUILT)
    text = render_system_prompt(config, gpt_facts)
    assert not re.search(r"check\.py|preflight|watchdog|forecast|should_skip|can_skip|bounds|development set", text)


@BOTH
def test_money_is_not_mentioned(make_config: MakeConfig, gpt_facts: RunFacts, prompt: str) -> None:
    text = render_system_prompt(make_config(prompt=prompt), gpt_facts)
    assert not re.search(r"\$|dollar|cost|price|money|usd|cheap|budget|expensive|spend", text, re.IGNORECASE)


def test_what_does_not_concern_the_run_is_left_out(make_config: MakeConfig, gpt_facts: RunFacts) -> None:
    alone = render_system_prompt(make_config(), dataclasses.replace(gpt_facts, schedulers=()))
    for word in (r"\branks?\b", r"world_size", r"scheduler", r"clip_grad_norm", r"[Ss]caler", r"activations"):
        assert not re.search(word, alone), word


@pytest.mark.parametrize(
    ("arguments", "facts", "expected"),
    [
        ({}, {"world_size": 4}, "`world_size` (4), `rank`"),
        ({"clip_grad_norm": 0.5}, {}, "`spec[\"clip_grad_norm\"]` is 0.5"),
        ({}, {}, "`user_schedulers`"),
        ({"activations": ["blocks.0"]}, {}, "`activations` (by module: blocks.0)"),
    ],
)  # fmt: skip
def test_what_concerns_the_run_is_in_it(
    make_config: MakeConfig, gpt_facts: RunFacts, arguments: dict[str, Any], facts: dict[str, Any], expected: str
) -> None:
    assert expected in render_system_prompt(make_config(**arguments), dataclasses.replace(gpt_facts, **facts))


@pytest.mark.parametrize(
    ("blocking", "expected"),
    [
        (True, "Training waits while you work."),
        (False, "Training goes on while you work."),
        ("auto", "Whether training waits for you differs"),
    ],
)
def test_waiting_is_described_as_configured(
    make_config: MakeConfig, gpt_facts: RunFacts, blocking: Any, expected: str
) -> None:
    text = render_system_prompt(make_config(blocking=blocking), gpt_facts)
    assert expected in text
    others = {"Training waits while you work.", "Training goes on while you work.", "Whether training waits for you"}
    assert [other for other in others if other in text] == [next(other for other in others if expected[:30] in other)]


def test_an_undo_is_conditional_only_where_a_copy_may_not_fit(make_config: MakeConfig, gpt_facts: RunFacts) -> None:
    assert "provided that a copy" not in render_system_prompt(make_config(), gpt_facts)
    small = render_system_prompt(make_config(snapshot_limit_gb=0.001), gpt_facts)
    assert "provided that a copy of it all fits into 0.001 GB" in small


def test_only_the_neutral_prompt_offers_keeping(make_config: MakeConfig, gpt_facts: RunFacts) -> None:
    neutral, aggressive = (
        render_system_prompt(make_config(prompt=prompt), gpt_facts) for prompt in ("neutral", "aggressive")
    )
    assert "**Changed or kept**" in neutral
    assert "Leaving the files as they are is an answer" in neutral
    assert not re.search(
        r"\bkept the|or kept|\bkeep(ing)? the program|leave it|leaving the files", aggressive, re.IGNORECASE
    )
    parts = re.findall(r"^- \*\*(\w+)\*\*:", aggressive, re.MULTILINE)
    assert parts == ["Observed", "Review", "Changed", "Prediction", "Rules"]


def test_a_source_that_is_not_shared_is_not_announced(make_config: MakeConfig, gpt_facts: RunFacts) -> None:
    assert "the training script, the model's source" in render_system_prompt(make_config(), gpt_facts)
    hidden = render_system_prompt(make_config(share_code=False), gpt_facts)
    assert "the training script" not in hidden
    assert "the model's source" not in hidden
    partly = render_system_prompt(make_config(share_code=["train*"]), gpt_facts)
    assert "the training script" not in partly
    assert "the model's source" in partly


def test_parameters_on_several_devices_are_told_apart(make_config: MakeConfig, gpt_facts: RunFacts) -> None:
    first, *others = gpt_facts.parameters
    parameters = (dataclasses.replace(first, dtype="bfloat16", device="cuda:0"), *others)
    text = render_system_prompt(make_config(), dataclasses.replace(gpt_facts, parameters=parameters))
    assert "token_embedding.weight | 1 | 256x128 | 32,768 | bfloat16 | cuda:0" in text
    assert "all float32" not in text
