"""Every optimizer of `torch.optim` that can be wrapped, in the forms that it has: found by walking, not by a list."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from cases.models import Matrices, Mlp, ModelMaker, SparseBag

REFUSED = {"LBFGS"}

# Options that change the computation, tried where an optimizer takes them all.
_OPTIONS: dict[str, dict[str, Any]] = {
    "maximize": {"maximize": True, "lr": 1e-5},  # or the loss overflows
    "weight_decay": {"weight_decay": 0.05},
    "decoupled": {"weight_decay": 0.05, "decoupled_weight_decay": True},
    "amsgrad": {"amsgrad": True},
    "momentum": {"momentum": 0.8},
    "nesterov": {"momentum": 0.8, "nesterov": True},
    "dampening": {"momentum": 0.8, "dampening": 0.3},
    "no nesterov": {"momentum": 0.8, "nesterov": False},
    "centered": {"momentum": 0.8, "centered": True},
    "lr_decay": {"lr_decay": 0.01, "initial_accumulator_value": 0.1},
    "match rms": {"adjust_lr_fn": "match_rms_adamw"},
    "averaging": {"t0": 30.0, "lambd": 0.01},
}
_MODELS: dict[str, ModelMaker] = {"SparseAdam": SparseBag, "Muon": Matrices}


@dataclass(frozen=True, kw_only=True)
class OptimizerCase:
    """One form of an optimizer: `options` for its constructor, on a model whose parameters it supports."""

    name: str
    form: str
    options: dict[str, Any]
    model: ModelMaker

    def __str__(self) -> str:
        return f"{self.name}-{self.form}"

    def make(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of a model; a rate that is a tensor is one of its own."""
        options = {key: _own(value) for key, value in self.options.items()}
        return wrappable()[self.name](model.parameters(), **options)


def wrappable() -> dict[str, Any]:
    """Every optimizer class of `torch.optim` by name, but those that `wrap` refuses."""
    classes = {name: kind for name, kind in vars(torch.optim).items() if inspect.isclass(kind)}
    return {
        name: kind
        for name, kind in sorted(classes.items())
        if issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer and name not in REFUSED
    }


def implementations() -> list[OptimizerCase]:
    """Each optimizer as it is, with `foreach` on and off, fused, and with its rate in a tensor, where it takes that."""
    cases = []
    for name, kind in wrappable().items():
        parameters = inspect.signature(kind).parameters
        forms: dict[str, dict[str, Any]] = {"plain": {}}
        if "foreach" in parameters:
            forms |= {"foreach": {"foreach": True}, "for-loop": {"foreach": False}}
        if "fused" in parameters:
            forms["fused"] = {"fused": True}
        if "Tensor" in str(parameters["lr"].annotation):
            off = {"foreach": False} if "foreach" in parameters else {}
            forms["tensor rate"] = {"lr": torch.tensor(0.01), **off}
            if "fused" in parameters:
                forms["fused, tensor rate"] = {"lr": torch.tensor(0.01), "fused": True}
        cases += [_case(name, form, options) for form, options in forms.items()]
    return cases


def options() -> list[OptimizerCase]:
    """Each optimizer with each of the options above that it takes, with `foreach` on and off, and fused."""
    cases = []
    for name, kind in wrappable().items():
        parameters = inspect.signature(kind).parameters
        ways: dict[str, dict[str, Any]] = {"": {}}
        if "foreach" in parameters:
            ways = {"foreach, ": {"foreach": True}, "for-loop, ": {"foreach": False}}
        if "fused" in parameters:
            ways["fused, "] = {"fused": True}
        for form, chosen in _OPTIONS.items():
            if set(chosen) <= set(parameters):
                cases += [_case(name, f"{way}{form}", {**chosen, **how}) for way, how in ways.items()]
    return cases


def case(name: str, form: str = "plain") -> OptimizerCase:
    """One of `implementations()`."""
    return next(item for item in implementations() if item.name == name and item.form == form)


def _case(name: str, form: str, chosen: dict[str, Any]) -> OptimizerCase:
    return OptimizerCase(name=name, form=form, options={"lr": 0.01, **chosen}, model=_MODELS.get(name, Mlp))


def _own(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
