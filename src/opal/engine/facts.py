"""What the agent is told of the run: parameters, groups, schedules, model, script, hardware."""

from __future__ import annotations

import inspect
import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from opal.engine.user_optimizers import UserOptimizers, clean_name
from opal.kit import role as role_of
from opal.types import GroupFacts, ModelFacts, OptimizerFacts, ParameterFacts, RunFacts, SchedulerFacts

_LIBRARY_PARTS = ("site-packages", "dist-packages")
_MAX_SUMMARY_LINES = 120


def gather_facts(
    optimizers: UserOptimizers,
    schedulers: list[LRScheduler],
    model: torch.nn.Module,
    *,
    world_size: int,
    activations: tuple[str, ...],
) -> RunFacts:
    """Collect everything that is fixed at `wrap`."""
    group_of = {id(param): index for index, group in enumerate(optimizers.param_groups) for param in group["params"]}
    return RunFacts(
        parameters=tuple(_parameter(name, param, group_of[id(param)]) for name, param in optimizers.named_params),
        groups=tuple(_groups(optimizers)),
        optimizers=tuple(
            OptimizerFacts(name=type(optimizer).__name__, source=_own_source(type(optimizer)))
            for optimizer in optimizers.optimizers
        ),
        schedulers=tuple(_scheduler(scheduler) for scheduler in schedulers),
        model=ModelFacts(name=type(model).__name__, summary=_summary(model), sources=_model_sources(model)),
        script=_script(),
        world_size=world_size,
        torch_version=str(torch.__version__),
        python_version=platform.python_version(),
        hardware=hardware(optimizers),
        uses_activations=activations,
    )


def hardware(optimizers: UserOptimizers) -> str:
    """The device that the parameters lie on, in words."""
    devices = {param.device for _, param in optimizers.named_params}
    kinds = sorted({device.type for device in devices}) or ["cpu"]
    if kinds == ["cuda"]:
        names = sorted({torch.cuda.get_device_name(device) for device in devices})
        return ", ".join(names)
    threads = torch.get_num_threads()
    return f"{', '.join(kinds)} ({platform.machine()}, {os.cpu_count()} cores, {threads} torch threads)"


def _parameter(name: str, param: torch.nn.Parameter, group: int) -> ParameterFacts:
    return ParameterFacts(
        name=name,
        role=role_of(name),
        shape=tuple(param.shape),
        dtype=str(param.dtype).removeprefix("torch."),
        device=str(param.device),
        count=param.numel(),
        requires_grad=param.requires_grad,
        group=group,
    )


def _groups(optimizers: UserOptimizers) -> list[GroupFacts]:
    names = {id(param): name for name, param in optimizers.named_params}
    groups: list[GroupFacts] = []
    for optimizer in optimizers.optimizers:
        for group in optimizer.param_groups:
            options = {key: _plain(value) for key, value in group.items() if key not in ("params", "param_names")}
            groups.append(
                GroupFacts(
                    index=len(groups),
                    optimizer=type(optimizer).__name__,
                    options=options,
                    names=tuple(names[id(param)] for param in group["params"]),
                )
            )
    return groups


def _scheduler(scheduler: LRScheduler) -> SchedulerFacts:
    settings = {}
    for key, value in vars(scheduler).items():
        if key in ("optimizer", "_last_lr", "_step_count", "_get_lr_called_within_step", "_is_initial", "verbose"):
            continue
        inner = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(item, LRScheduler) for item in inner):
            nested = [_scheduler(item) for item in inner if isinstance(item, LRScheduler)]
            settings[key] = [{"name": item.name, **item.settings} for item in nested]
        else:
            settings[key] = _plain(value)
    return SchedulerFacts(name=type(scheduler).__name__, settings=settings, source=_scheduler_source(scheduler))


def _scheduler_source(scheduler: LRScheduler) -> str | None:
    """The source of a home-made class, and of the functions that a LambdaLR was given."""
    parts = [_own_source(type(scheduler))]
    for function in getattr(scheduler, "lr_lambdas", []):
        parts.append(_own_source(function) if inspect.isfunction(function) else None)
    found = list(dict.fromkeys(part for part in parts if part))
    return "\n\n".join(found) or None


def _plain(value: Any) -> Any:
    """A setting as numbers and texts: tensors with one element as numbers, functions by name."""
    if isinstance(value, torch.Tensor):
        return value.tolist() if value.numel() <= 16 else f"tensor of shape {tuple(value.shape)}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return getattr(value, "__qualname__", None) or f"<{type(value).__name__}>"


def _summary(model: torch.nn.Module) -> str:
    lines = repr(model).splitlines()
    if len(lines) > _MAX_SUMMARY_LINES:
        left_out = len(lines) - _MAX_SUMMARY_LINES
        lines = [*lines[:_MAX_SUMMARY_LINES], f"… {left_out} more lines"]
    return "\n".join(lines)


def _model_sources(model: torch.nn.Module) -> dict[str, str]:
    """The source of the model's own classes, by `module.Class.py`; not of torch's."""
    sources: dict[str, str] = {}
    for kind in dict.fromkeys(type(part) for part in model.modules()):
        if _is_torch(kind):
            continue
        text = _source(kind)
        if text is not None:
            sources[clean_name(f"{kind.__module__}.{kind.__qualname__}.py".replace("<locals>.", ""))] = text
    return sources


def _own_source(item: Any) -> str | None:
    """The source of something that is not torch's."""
    return None if _is_torch(item) else _source(item)


def _is_torch(item: Any) -> bool:
    return bool(item.__module__.split(".")[0] == "torch")


def _source(item: Any) -> str | None:
    try:
        return inspect.getsource(item)
    except (OSError, TypeError):
        return None


def _script() -> str | None:
    """The training script, if Python was started with one that is not a library's."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None or not os.path.isfile(path) or any(part in path for part in _LIBRARY_PARTS):
        return None
    return os.path.abspath(str(path))
