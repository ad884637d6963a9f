"""The script's schedule: paused under a program with rates of its own, and continued as if it had never been."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from cases.fingerprint import differences
from cases.schedulers import SCHEDULERS
from engine.edited_run import SWITCH, UPDATES, Loop, edit, sgd_program, train, wrapped
from opal.records import events
from opal.testing.scripted import Edit

START = Path(__file__).parents[2] / "src/opal/programs/starting_updater.py"
LATER = 33
OWN = """
class Updater:
    follow_user_scheduler = False
    def __init__(self, named_params, spec):
        self.params = [param for _, param in named_params]
        self.param_groups = [{"params": self.params, "lr": 0.25}]
        for optimizer in spec["user_optimizers"]:
            for group in optimizer.param_groups:
                group["lr"] = WRITTEN
                group["betas"] = (0.0, 0.0)
    def step(self, grads, update):
        if update == FAILS:
            raise RuntimeError("now")
def build(named_params, previous=None, spec=None):
    return Updater(named_params, spec)
"""


def own(fails: int = 0, *, tensor: bool = False) -> Edit:
    """A program that writes into the script's groups, changes nothing, and raises at update `fails`."""
    text = OWN.replace("FAILS", str(fails))
    if tensor:
        return edit(text.replace('group["lr"] = WRITTEN', 'group["lr"].fill_(7.0)'))
    return edit(text.replace("WRITTEN", "7.0"))


def following() -> Edit:
    """A program that follows the script's schedule."""
    return edit(sgd_program(follows=True))


KINDS = [(name, on_wrapper, False) for name in SCHEDULERS for on_wrapper in (False, True)]
KINDS += [(name, False, True) for name in ("CosineAnnealingLR", "OneCycleLR", "ReduceLROnPlateau")]


@pytest.mark.parametrize(("name", "on_wrapper", "tensor"), KINDS)
def test_after_a_revert_the_rates_are_those_that_the_script_would_have_had(
    tmp_path: Path, name: str, on_wrapper: bool, tensor: bool
) -> None:
    def scheduler(optimizer: Any) -> LRScheduler:
        return SCHEDULERS[name](optimizer, UPDATES)

    def optimizer(params: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(params, lr=torch.tensor(0.02) if tensor else 0.02)

    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        loss.data.fill_(1.0 + (update > 10))  # the same for a scheduler that looks at it, whatever the program does
        loop.handle.step(loss=loss) if loop.handle is not None else loop.inner.step()

    options: dict[str, Any] = {"scheduler": scheduler, "optimizer": optimizer, "step": step}
    edits = {1: own(LATER, tensor=tensor)}
    run = train(wrapped(tmp_path, edits, trial_steps=20), on_wrapper=on_wrapper, **options)
    plain = train(**options)
    assert [event.update for event in run.events(events.ProgramReverted)] == [LATER]
    paused = range(SWITCH - 1, LATER - 1)
    assert [run.last_lr[index] for index in paused] == [0.25] * len(paused)
    assert run.applied[: SWITCH - 1] == plain.applied[: SWITCH - 1]
    assert run.applied[LATER - 1 :] == plain.applied[LATER - 1 :]
    assert run.last_lr[LATER - 1 :] == plain.last_lr[LATER - 1 :]
    assert differences(plain.end["scheduler"], run.end["scheduler"]) == []
    assert differences(plain.inner.state_dict()["param_groups"], run.inner.state_dict()["param_groups"]) == []
    if tensor:
        assert isinstance(run.inner.param_groups[0]["lr"], torch.Tensor)
    assert type(run.scheduler) is type(plain.scheduler)


@pytest.mark.parametrize("on_wrapper", [False, True], ids=["given", "on the wrapper"])
def test_a_program_that_follows_gets_the_schedule_back(tmp_path: Path, on_wrapper: bool) -> None:
    run = train(wrapped(tmp_path, {1: own(), 2: following()}), on_wrapper=on_wrapper)
    plain = train()
    assert run.applied[SWITCH - 1 : 29] == [0.25] * 10
    assert run.applied[29:] == plain.applied[29:]
    assert run.inner.param_groups[0]["lr"] == plain.inner.param_groups[0]["lr"]


@pytest.mark.parametrize("on_wrapper", [False, True], ids=["given", "on the wrapper"])
def test_the_starting_program_written_back_by_the_agent_has_the_schedule_again(
    tmp_path: Path, on_wrapper: bool
) -> None:
    run = train(wrapped(tmp_path, {1: own(), 2: edit(START.read_text())}), on_wrapper=on_wrapper)
    plain = train()
    assert run.applied[29:] == plain.applied[29:]


def test_an_undone_first_update_leaves_the_schedule_paused_as_it_was(tmp_path: Path) -> None:
    fails = edit(sgd_program(follows=True).replace("group = self", "1 / 0; group = self"))
    run = train(wrapped(tmp_path, {1: own(), 2: fails, 3: edit(START.read_text())}))
    plain = train()
    assert run.applied[SWITCH - 1 : 39] == [0.25] * 20
    assert run.applied[39:] == plain.applied[39:]
    assert run.last_lr[39:] == plain.last_lr[39:]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_what_is_saved_of_a_paused_scheduler_is_what_the_script_would_have_saved(tmp_path: Path, name: str) -> None:
    saved: dict[bool, Any] = {}

    def scheduler(optimizer: Any) -> LRScheduler:
        return SCHEDULERS[name](optimizer, UPDATES)

    def look(loop: Loop, update: int) -> None:
        if update == 31:
            assert loop.scheduler is not None
            saved[loop.handle is not None] = copy.deepcopy(loop.scheduler.state_dict())
            if name != "LambdaLR" and name != "MultiplicativeLR":  # lambdas cannot be pickled
                again = pickle.loads(pickle.dumps(loop.scheduler))
                assert type(again) is type(plain_one(scheduler))
                assert differences(again.state_dict(), loop.scheduler.state_dict()) == []
                assert type(again.optimizer) is torch.optim.AdamW

    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        loss.data.fill_(1.0)
        loop.handle.step(loss=loss) if loop.handle is not None else loop.inner.step()

    train(scheduler=scheduler, before=look, step=step)
    train(wrapped(tmp_path, {1: own()}), scheduler=scheduler, before=look, step=step)
    assert differences(saved[False], saved[True]) == []
    assert "Shadow" not in repr(saved[True])


def plain_one(scheduler: Any) -> LRScheduler:
    """A scheduler of its plain class."""
    made: LRScheduler = scheduler(torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=0.02))
    return made


def test_a_parameter_that_a_program_leaves_out_is_in_a_group_without_a_rate(tmp_path: Path) -> None:
    text = (
        OWN.replace("FAILS", "0")
        .replace("WRITTEN", "7.0")
        .replace('"params": self.params,', '"params": self.params[1:],')
    )
    seen: list[Any] = []

    def look(loop: Loop, update: int) -> None:
        if update == 25:
            seen.extend(loop.handle.param_groups)

    run = train(wrapped(tmp_path, {1: edit(text)}), before=look)
    assert [len(group["params"]) for group in seen] == [5, 1]
    assert seen[1]["params"][0] is next(run.model.parameters())
    assert math.isnan(seen[1]["lr"])
    assert seen[0]["lr"] == 0.25


def test_a_scheduler_of_somebody_elses_optimizer_is_left_alone(tmp_path: Path) -> None:
    other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = lr_scheduler.ExponentialLR(other, gamma=0.5)

    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        other.step()
        loop.handle.step(loss=loss)
        theirs.step()

    train(wrapped(tmp_path, {1: own()}, scheduler=[theirs]), scheduler=None, step=step)
    assert other.param_groups[0]["lr"] == 0.5**UPDATES
