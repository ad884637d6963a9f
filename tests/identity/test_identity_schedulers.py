"""A run that keeps its programs is the plain run, byte for byte, with every scheduler of torch."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler

import opal
from cases.fingerprint import differences
from cases.loops import Placement, Script, keep, kept_like_plain
from cases.models import Mlp
from cases.schedulers import SCHEDULERS
from opal.records.events import SchedulerAdopted
from opal.records.reader import read_run


def momentum(model: nn.Module) -> list[Optimizer]:
    return [torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)]


def tensor_rate(model: nn.Module) -> list[Optimizer]:
    return [torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.02), foreach=False)]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_keep_is_plain_with_every_scheduler(tmp_path: Path, name: str) -> None:
    plain, _ = kept_like_plain(Script(optimizers=momentum, schedulers=(SCHEDULERS[name],)), tmp_path)
    assert len({rates[0] for rates in plain.rates}) > 1


@pytest.mark.parametrize("name", ["CosineAnnealingLR", "OneCycleLR", "SequentialLR", "ReduceLROnPlateau", "LambdaLR"])
@pytest.mark.parametrize("placement", ["not given", "on the wrapper"])
def test_keep_is_plain_wherever_the_scheduler_was_built(tmp_path: Path, name: str, placement: Placement) -> None:
    _, wrapped = kept_like_plain(Script(schedulers=(SCHEDULERS[name],), placement=placement), tmp_path)
    adopted = {event.name for event in read_run(wrapped.run_dir).events if isinstance(event, SchedulerAdopted)}
    assert (name in adopted) == (placement == "on the wrapper")


@pytest.mark.parametrize("name", ["CosineAnnealingLR", "OneCycleLR", "SequentialLR", "ReduceLROnPlateau"])
def test_keep_is_plain_with_a_rate_in_a_tensor_and_a_scheduler(tmp_path: Path, name: str) -> None:
    kept_like_plain(Script(optimizers=tensor_rate, schedulers=(SCHEDULERS[name],)), tmp_path)


def test_the_recorded_rates_are_those_that_each_check_s_update_was_made_with(tmp_path: Path) -> None:
    plain, wrapped = kept_like_plain(Script(schedulers=(SCHEDULERS["CosineAnnealingLR"],)), tmp_path)
    recorded = {check.update: list(check.learning_rates) for check in read_run(wrapped.run_dir).losses}
    # The loop looks after `scheduler.step()`, at what the next update will have.
    assert recorded == {update: plain.rates[update - 2] for update in range(10, 121, 10)}


def test_every_scheduler_of_torch_has_a_case() -> None:
    known = {type(make(torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9), 120))
             for make in SCHEDULERS.values()}  # fmt: skip
    found = {kind for kind in vars(lr_scheduler).values() if inspect.isclass(kind)
             and issubclass(kind, lr_scheduler.LRScheduler) and not kind.__name__.endswith("LRScheduler")}  # fmt: skip
    assert found <= known


def _stepped_too_early(folder: Path, *, wrap: bool, late: bool) -> list[str]:
    """Warnings of a loop that calls `scheduler.step()` before the first `optimizer.step()`."""
    torch.manual_seed(0)
    model = Mlp()
    optimizer: Any = torch.optim.AdamW(model.parameters())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scheduler = None if late else lr_scheduler.StepLR(optimizer, 5)
        if wrap:
            optimizer = opal.wrap(optimizer, model, scheduler=scheduler, **keep(folder))
        scheduler = scheduler or lr_scheduler.StepLR(optimizer, 5)
        for _ in range(3):
            scheduler.step()
            model.loss(torch.Generator()).backward()
            optimizer.step()
    if wrap:
        optimizer.close()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("late", [False, True], ids=["built before", "built on the wrapper"])
def test_torch_s_warning_about_a_scheduler_that_steps_first_comes_as_often_as_without_opal(
    tmp_path: Path, late: bool
) -> None:
    plain = _stepped_too_early(tmp_path, wrap=False, late=late)
    assert len(plain) == 1
    assert "before `optimizer.step()`" in plain[0]
    assert _stepped_too_early(tmp_path, wrap=True, late=late) == plain


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name not in ("LambdaLR", "MultiplicativeLR")])
def test_copies_of_a_scheduler_built_on_the_wrapper_are_like_those_of_a_plain_one(tmp_path: Path, name: str) -> None:
    model = Mlp()
    plain_optimizer, inside = momentum(model)[0], momentum(model)[0]
    optimizer: Any = opal.wrap(inside, model, **keep(tmp_path))
    plain, scheduler = SCHEDULERS[name](plain_optimizer, 120), SCHEDULERS[name](optimizer, 120)
    for copied in (copy.deepcopy, lambda original: pickle.loads(pickle.dumps(original))):
        one, other = copied(plain), copied(scheduler)
        assert type(one) is type(other)
        for each in (one, other):
            _step(each)
        assert differences(one.state_dict(), other.state_dict()) == []
        assert one.get_last_lr() == other.get_last_lr()
    assert differences(plain.state_dict(), scheduler.state_dict()) == []
    assert inside.param_groups[0]["lr"] == plain_optimizer.param_groups[0]["lr"]
    _step(plain)
    scheduler.load_state_dict(plain.state_dict())
    assert differences(plain.state_dict(), scheduler.state_dict()) == []
    optimizer.close()


def _step(scheduler: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler.step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
