"""A run that keeps its programs is the plain run, byte for byte, with every optimizer of torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cases.loops import Script, Trained, kept_like_plain, train
from cases.optimizers import REFUSED, OptimizerCase, implementations, wrappable

# Every optimizer as it is; every way of computing it with those that people use most.
SAMPLE = [
    case
    for case in implementations()
    if case.form in ("plain", "fused") or case.name in ("AdamW", "SGD")
]  # fmt: skip


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_keep_is_plain_with_every_optimizer(tmp_path: Path, case: OptimizerCase) -> None:
    script = Script(model=case.model, optimizers=lambda model: [case.make(model)])
    plain, _ = kept_like_plain(script, tmp_path)
    assert_it_trained(plain, script)


def test_every_optimizer_of_torch_has_a_case() -> None:
    known = {case.name for case in implementations()}
    assert known == set(wrappable())
    assert known >= {"Adam", "AdamW", "Adafactor", "SGD", "SparseAdam", "Rprop"}
    everything = {
        kind.__name__ for kind in torch.optim.Optimizer.__subclasses__() if kind.__module__.startswith("torch.")
    }
    assert {name for name in everything if hasattr(torch.optim, name)} <= known | REFUSED


def test_every_way_to_compute_an_optimizer_has_a_case() -> None:
    forms = {name: {case.form for case in implementations() if case.name == name} for name in wrappable()}
    ways = {"plain", "foreach", "for-loop", "fused", "tensor rate", "fused, tensor rate"}
    assert {name for name, found in forms.items() if found == ways} >= {"Adam", "AdamW", "SGD", "Adagrad"}
    assert all({"foreach", "for-loop"} <= forms[name] for name in ("NAdam", "RAdam", "RMSprop", "Adadelta", "ASGD"))


def assert_it_trained(plain: Trained, script: Script) -> None:
    """The optimizer has moved every parameter, so that equal bytes say something."""
    start = train(Script(model=script.model, optimizers=script.optimizers, updates=0))
    assert plain.parameters != start.parameters
    assert plain.losses[0] != plain.losses[-1]
