"""The full counts: keep is plain with every form of every optimizer, every scheduler, model, setting and option."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cases.loops import Placement, Script, kept_like_plain
from cases.models import Complex, Convolution, Mlp, ModelMaker, Odd, SparseBag, Tied
from cases.optimizers import OptimizerCase, case, implementations, options, wrappable
from cases.schedulers import SCHEDULERS
from cases.settings import SETTINGS

pytestmark = pytest.mark.slow

MODELS: dict[str, ModelMaker] = {
    "mlp": Mlp, "tied": Tied, "odd": Odd, "complex": Complex, "convolution": Convolution, "sparse": SparseBag,
    "dropout": functools.partial(Mlp, dropout=0.3),
}  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {"every": 1}, {"every": 20}, {"every": 7}, {"every": 1, "blocking": False}, {"blocking": False},
    {"blocking": "auto"}, {"blocking": "auto", "max_lag_updates": 0},
]  # fmt: skip
ON_SCHEDULERS = [case("SGD"), case("AdamW", "tensor rate"), case("Adam", "fused"), case("RMSprop", "foreach"),
                 case("SGD", "fused, tensor rate")]  # fmt: skip


def of(item: OptimizerCase, model: ModelMaker | None = None, **script: Any) -> Script:
    return Script(model=model or item.model, optimizers=lambda built: [item.make(built)], **script)


@pytest.mark.parametrize("item", implementations() + options(), ids=str)
@pytest.mark.parametrize("clip", [None, 0.3], ids=["", "clipped"])
def test_every_form_of_every_optimizer(tmp_path: Path, item: OptimizerCase, clip: float | None) -> None:
    if clip is not None and item.name == "SparseAdam":
        pytest.skip("torch clips no sparse gradients")
    kept_like_plain(of(item, clip=clip, schedulers=(SCHEDULERS["CosineAnnealingLR"],)), tmp_path)


@pytest.mark.parametrize("item", implementations(), ids=str)
def test_clipping_handed_over_with_every_optimizer(tmp_path: Path, item: OptimizerCase) -> None:
    if item.name == "SparseAdam":
        pytest.skip("torch clips no sparse gradients")
    kept_like_plain(of(item, clip=0.3, clip_handed_over=True), tmp_path, clip_grad_norm=0.3)


@pytest.mark.parametrize("item", ON_SCHEDULERS, ids=str)
@pytest.mark.parametrize("placement", ["given", "not given", "on the wrapper"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler(tmp_path: Path, name: str, placement: Placement, item: OptimizerCase) -> None:
    kept_like_plain(of(item, schedulers=(SCHEDULERS[name],), placement=placement), tmp_path)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(list(SCHEDULERS)[:6], list(SCHEDULERS)[6:])))
def test_two_optimizers_with_two_schedulers(tmp_path: Path, first: str, second: str) -> None:
    def two(model: nn.Module) -> list[torch.optim.Optimizer]:
        params = list(model.parameters())
        return [torch.optim.SGD(params[:2], lr=0.03, momentum=0.9), torch.optim.AdamW(params[2:], lr=0.01)]

    kept_like_plain(Script(optimizers=two, schedulers=(SCHEDULERS[first], SCHEDULERS[second])), tmp_path)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [name for name in wrappable() if name not in ("SparseAdam", "Muon")])
def test_every_model_with_every_optimizer(tmp_path: Path, name: str, model: str) -> None:
    if not supported(MODELS[model], lambda built: case(name).make(built)):
        pytest.skip("torch refuses these parameters")
    kept_like_plain(of(case(name), MODELS[model]), tmp_path)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_every_setting(tmp_path: Path, name: str, model: str, setting: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about anomaly detection
        with SETTINGS[setting]():
            if not supported(MODELS[model], lambda built: case(name).make(built)):
                pytest.skip("torch refuses these parameters")
            kept_like_plain(of(case(name), MODELS[model]), tmp_path)


@pytest.mark.parametrize("changed", OPTIONS, ids=str)
@pytest.mark.parametrize("name", wrappable())
def test_every_option_of_the_decisions(tmp_path: Path, name: str, changed: dict[str, Any]) -> None:
    script = of(case(name), schedulers=(SCHEDULERS["OneCycleLR"],), closure=changed["every"] == 1 if "every" in changed
                else False)  # fmt: skip
    kept_like_plain(script, tmp_path, **changed)


def supported(make: ModelMaker, optimizer: Callable[[nn.Module], torch.optim.Optimizer]) -> bool:
    """Whether torch makes an update of these parameters with this optimizer, without OPAL."""
    model = make()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about sparse gradients
            built = optimizer(model)
            model.loss(torch.Generator().manual_seed(0)).backward()
            built.step()
    except (RuntimeError, ValueError, ArithmeticError):  # Adafactor divides by the number of entries
        assert make in (Odd, Complex, SparseBag)
        return False
    return True
