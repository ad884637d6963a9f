"""A run that keeps its programs is the plain run, byte for byte, whatever the script does around its updates."""

from __future__ import annotations

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from cases.loops import UPDATES, LossForm, Script, keep, kept_like_plain, train, unlike
from cases.models import Complex, Convolution, Mlp, ModelMaker, Odd, SparseBag, Tied
from cases.schedulers import SCHEDULERS
from opal.records.reader import read_run

COSINE = SCHEDULERS["CosineAnnealingLR"]


def two(model: nn.Module) -> list[Optimizer]:
    """SGD for matrices, AdamW for the rest."""
    matrices = [param for param in model.parameters() if param.ndim > 1]
    rest = [param for param in model.parameters() if param.ndim <= 1]
    return [torch.optim.SGD(matrices, lr=0.03, momentum=0.9), torch.optim.AdamW(rest, lr=0.01)]


def head_only(model: nn.Module) -> list[Optimizer]:
    return [torch.optim.AdamW(model.second.parameters(), lr=0.01)]


def two_groups(model: nn.Module) -> list[Optimizer]:
    matrices = [param for param in model.parameters() if param.ndim > 1]
    rest = [param for param in model.parameters() if param.ndim <= 1]
    groups = [{"params": matrices, "lr": 0.02}, {"params": rest, "weight_decay": 0.0}]
    return [torch.optim.AdamW(groups, lr=0.005)]


def sgd(model: nn.Module) -> list[Optimizer]:
    return [torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)]


def adagrad(model: nn.Module) -> list[Optimizer]:
    return [torch.optim.Adagrad(model.parameters(), lr=0.1)]


def of_a_generator(model: nn.Module) -> list[Optimizer]:
    return [torch.optim.Adam(list(model.named_parameters()), lr=0.01)]


SCRIPTS = {
    "groups with rates of their own": Script(optimizers=two_groups, schedulers=(COSINE,)),
    "named parameters": Script(optimizers=of_a_generator),
    "two optimizers with two schedulers": Script(optimizers=two, schedulers=(COSINE, SCHEDULERS["OneCycleLR"])),
    "a subset of the parameters": Script(optimizers=head_only, schedulers=(COSINE,)),
    "tied weights": Script(model=Tied),
    "parameters of odd kinds": Script(model=Odd),
    "parameters of odd kinds, SGD": Script(model=Odd, optimizers=sgd),
    "channels last and batch norm": Script(model=Convolution, schedulers=(COSINE,)),
    "sparse gradients, SGD": Script(model=SparseBag, optimizers=sgd),
    "sparse gradients, Adagrad": Script(model=SparseBag, optimizers=adagrad),
    "complex parameters": Script(model=Complex),
    "complex parameters, SGD": Script(model=Complex, optimizers=sgd, schedulers=(COSINE,)),
    "clipping in the loop": Script(clip=0.3, schedulers=(COSINE,)),
    "closures": Script(closure=True, schedulers=(COSINE,)),
    "dropout": Script(model=functools.partial(Mlp, dropout=0.4)),
    "gradient accumulation": Script(accumulate=4),
    "gradients set to zero": Script(set_to_none=False),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_keep_is_plain_with(tmp_path: Path, name: str) -> None:
    plain, wrapped = kept_like_plain(SCRIPTS[name], tmp_path)
    assert {text[:23] for _, text in plain.warned} <= ({"Sparse invariant checks"} if "sparse" in name else set())
    losses = [value for check in read_run(wrapped.run_dir).losses for value in check.values]
    assert losses == plain.losses


@pytest.mark.parametrize("changed", [{"every": 1}, {"blocking": False}, {"blocking": "auto"}, {"every": 20},
                                     {"every": 1, "blocking": False}, {"activations": ["first"]}], ids=str)  # fmt: skip
def test_keep_is_plain_with_the_option(tmp_path: Path, changed: dict[str, Any]) -> None:
    kept_like_plain(Script(schedulers=(COSINE,), model=functools.partial(Mlp, dropout=0.4)), tmp_path, **changed)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_run_that_diverges_is_the_plain_one(tmp_path: Path, blocking: bool) -> None:
    def too_fast(model: nn.Module) -> list[Optimizer]:
        return [torch.optim.SGD(model.parameters(), lr=1e6)]

    script = Script(optimizers=too_fast)
    plain = train(script)
    assert not math.isfinite(plain.losses[-1])
    assert unlike(plain, train(script, keep(tmp_path, script, blocking=blocking))) == []


@pytest.mark.parametrize("model", [Mlp, Tied, Odd], ids=["plain", "tied", "odd"])
def test_clipping_handed_over_is_clipping_in_the_loop(tmp_path: Path, model: ModelMaker) -> None:
    script = Script(model=model, clip=0.3, clip_handed_over=True)
    plain, _ = kept_like_plain(script, tmp_path, clip_grad_norm=0.3)
    assert train(dataclasses.replace(script, clip=None)).parameters != plain.parameters


@pytest.mark.parametrize("form", ["float", "numpy", "one element", "observed", "overwritten"])
def test_a_loss_is_recorded_as_it_was_in_whatever_form_it_is_given(tmp_path: Path, form: LossForm) -> None:
    plain, wrapped = kept_like_plain(Script(loss_form=form), tmp_path)
    checks = read_run(wrapped.run_dir).losses
    assert [value for check in checks for value in check.values] == plain.losses
    assert [check.first for check in checks] == list(range(1, UPDATES, 10))


def test_a_run_is_the_plain_one_when_it_is_not_told_its_losses(tmp_path: Path) -> None:
    _, wrapped = kept_like_plain(Script(loss_form="none"), tmp_path)
    assert {value for check in read_run(wrapped.run_dir).losses for value in check.values} <= {None}
