"""Step hooks of the optimizer inside, and those of all optimizers, run once per update after an edit too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from engine.edited_run import UPDATES, Loop, adamw, assert_same_end, edit, kinds, sgd_program, train, wrapped

STEPS_INSIDE = """
class Updater:
    follow_user_scheduler = True
    def __init__(self, optimizers):
        self.optimizers = optimizers
        self.param_groups = optimizers[0].param_groups
    def step(self, grads, update):
        for optimizer in self.optimizers:
            optimizer.step()
        FAIL
def build(named_params, previous=None, spec=None):
    return Updater(spec["user_optimizers"])
"""
STEPS_ITS_OWN = """
import torch
class Updater:
    def __init__(self, params):
        self.own = torch.optim.SGD(params, lr=0.05)
        self.param_groups = self.own.param_groups
    def step(self, grads, update):
        self.own.step()
def build(named_params, previous=None, spec=None):
    return Updater([param for _, param in named_params])
"""
PROGRAMS = {
    "steps the optimizer inside": STEPS_INSIDE.replace("FAIL", ""),
    "steps one of its own": STEPS_ITS_OWN,
    "steps none": sgd_program(),
}


class Calls:
    """Hooks that count, with the number of updates that were made when they ran."""

    def __init__(self) -> None:
        self.of: dict[str, list[Any]] = {"pre": [], "post": [], "all pre": [], "all post": []}
        self.handles: list[Any] = []

    def add(self, optimizer: torch.optim.Optimizer) -> None:
        register = {
            "pre": optimizer.register_step_pre_hook,
            "post": optimizer.register_step_post_hook,
            "all pre": register_optimizer_step_pre_hook,
            "all post": register_optimizer_step_post_hook,
        }
        for name, function in register.items():
            self.handles.append(function(self._hook(name)))  # type: ignore[operator]

    def _hook(self, name: str) -> Any:
        def hook(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            self.of[name].append(optimizer)

        return hook


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls()
    yield made
    for handle in made.handles:
        handle.remove()


def hooked(calls: Calls) -> Any:
    def make(params: Any) -> torch.optim.Optimizer:
        optimizer = adamw(params)
        calls.add(optimizer)
        return optimizer

    return make


@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_run_once_per_update_whatever_the_program_steps(tmp_path: Path, calls: Calls, name: str) -> None:
    seen: dict[int, dict[str, int]] = {}

    def look(loop: Loop, update: int) -> None:
        seen[update] = {name: len(found) for name, found in calls.of.items()}

    run = train(wrapped(tmp_path, {1: edit(PROGRAMS[name])}), optimizer=hooked(calls), before=look)
    assert kinds(run) == ["ProgramApplied", "TrialPassed"]
    assert seen == {update: dict.fromkeys(calls.of, update - 1) for update in range(1, UPDATES + 1)}
    assert all(optimizer is run.inner for found in calls.of.values() for optimizer in found)


@pytest.mark.parametrize("before", [False, True], ids=["after the starting program", "after another program"])
def test_post_hooks_run_once_also_for_an_update_that_was_made_again(tmp_path: Path, calls: Calls, before: bool) -> None:
    edits = {2: edit(STEPS_INSIDE.replace("FAIL", "1 / 0"))} | ({1: edit(sgd_program())} if before else {})
    run = train(wrapped(tmp_path, edits), optimizer=hooked(calls))
    assert "ProgramFailed" in kinds(run)
    assert len(calls.of["post"]) == len(calls.of["all post"]) == UPDATES


def test_a_hook_that_changes_gradients_acts_once_on_an_update_that_was_made_again(tmp_path: Path) -> None:
    def halved(params: Any) -> torch.optim.Optimizer:
        optimizer = adamw(params)

        def hook(inner: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            for param in inner.param_groups[0]["params"]:
                param.grad.mul_(0.5)

        optimizer.register_step_pre_hook(hook)
        return optimizer

    run = train(wrapped(tmp_path, {1: edit(STEPS_INSIDE.replace("FAIL", "1 / 0"))}), optimizer=halved)
    assert_same_end(train(optimizer=halved), run)


def test_hooks_are_the_optimizers_own_again_after_a_revert(tmp_path: Path, calls: Calls) -> None:
    run = train(
        wrapped(tmp_path, {1: edit(STEPS_INSIDE.replace("FAIL", "assert update < 23"))}), optimizer=hooked(calls)
    )
    assert "ProgramReverted" in kinds(run)
    assert {name: len(found) for name, found in calls.of.items()} == dict.fromkeys(calls.of, UPDATES)
    assert len(run.inner._optimizer_step_pre_hooks) == 1
    calls.handles[0].remove()
    assert len(run.inner._optimizer_step_pre_hooks) == 0
