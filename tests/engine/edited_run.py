"""A small training loop whose program is edited while it runs, and the same loop by hand to compare it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

import opal
from cases.fingerprint import differences, random_states, seed_everything
from cases.models import Mlp
from opal.records import events
from opal.records.reader import RunRecord, read_run
from opal.testing.scripted import Edit, ScriptedBackend

UPDATES = 60
SWITCH = 20

SGD_PROGRAM = """
import torch


class Updater:
    follow_user_scheduler = FOLLOWS

    def __init__(self, named_params, spec):
        self.params = [param for _, param in named_params]
        self.momentum = [torch.zeros_like(param) for param in self.params]
        self.script_group = spec["user_optimizers"][0].param_groups[0]
        self.param_groups = [{"params": self.params, "lr": 0.05}]

    def step(self, grads, update):
        group = self.param_groups[0]
        group["lr"] = self.script_group["lr"] if FOLLOWS else 0.05 * (1 - update / 100)
        for param, momentum in zip(self.params, self.momentum):
            momentum.mul_(0.9).add_(param.grad)
            param.sub_(group["lr"] * momentum)


def build(named_params, previous=None, spec=None):
    return Updater(named_params, spec)
"""


def sgd_program(*, follows: bool = False) -> str:
    """SGD with momentum, with rates of its own or the script's."""
    return SGD_PROGRAM.replace("FOLLOWS", str(follows))


def edit(updater: str | None = None, **files: str | None) -> Edit:
    """An answer that writes `updater.py`, and `name.py` for each keyword."""
    texts: dict[str, str | None] = {f"{name}.py": text for name, text in files.items()}
    if updater is not None:
        texts["updater.py"] = updater
    return Edit(files=texts)


def dropped_out() -> Mlp:
    """A model that draws from the global generator at each forward pass, so that a changed one shows."""
    return Mlp(dropout=0.2)


def adamw(params: Any) -> Optimizer:
    return torch.optim.AdamW(params, lr=0.02)


def cosine(optimizer: Optimizer) -> LRScheduler:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=UPDATES)


@dataclass(kw_only=True)
class Loop:
    """The objects of a run, and what was seen at each update."""

    model: torch.nn.Module
    inner: Optimizer
    scheduler: LRScheduler | None
    handle: Any = None
    losses: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)
    """The rate in `param_groups` right after each update."""
    last_lr: list[float] = field(default_factory=list)
    """What `get_last_lr()` said after each update, before `scheduler.step()`."""
    end: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> RunRecord:
        """The run folder of a wrapped run that is closed."""
        return read_run(self.handle.run_dir)

    def events(self, kind: type[Any]) -> list[Any]:
        """The recorded events of one kind."""
        return [event for event in self.record.events if isinstance(event, kind)]


Before = Callable[[Loop, int], None]
Step = Callable[[Loop, int, torch.Tensor], None]


def train(
    wrap: Mapping[str, Any] | None = None,
    *,
    updates: int = UPDATES,
    model: Callable[[], torch.nn.Module] = dropped_out,
    optimizer: Callable[[Any], Optimizer] = adamw,
    scheduler: Callable[[Optimizer], LRScheduler] | None = cosine,
    on_wrapper: bool = False,
    before: Before | None = None,
    step: Step | None = None,
) -> Loop:
    """Train; wrapped if there are arguments for `opal.wrap`.

    `before(loop, update)` is called before each forward pass, `step(loop, update, loss)` instead of the optimizer's.
    """
    seed_everything()
    net = model()
    inner = optimizer(net.parameters())
    loop = Loop(model=net, inner=inner, scheduler=None)
    if scheduler and not on_wrapper:
        loop.scheduler = scheduler(inner)
    if wrap is not None:
        given = {"scheduler": loop.scheduler} if loop.scheduler else {}
        loop.handle = opal.wrap(inner, net, **given, **wrap)
    if scheduler and on_wrapper:
        loop.scheduler = scheduler(loop.handle if loop.handle is not None else inner)
    data = torch.Generator().manual_seed(1)
    try:
        for update in range(1, updates + 1):
            if before:
                before(loop, update)
            _update(loop, update, data, step)
    finally:
        if loop.handle is not None:
            loop.handle.close()
    loop.end = ended(loop)
    return loop


def _update(loop: Loop, update: int, data: torch.Generator, step: Step | None) -> None:
    outer = loop.handle if loop.handle is not None else loop.inner
    outer.zero_grad()
    loss = loop.model.loss(data)  # type: ignore[operator]
    loss.backward()
    loop.losses.append(loss.item())
    if step:
        step(loop, update, loss)
    elif loop.handle is not None:
        loop.handle.step(loss=loss)
    else:
        loop.inner.step()
    loop.applied.append(float(outer.param_groups[0]["lr"]))
    if loop.scheduler is not None:
        loop.last_lr.append(float(loop.scheduler.get_last_lr()[0]))
        if isinstance(loop.scheduler, ReduceLROnPlateau):
            loop.scheduler.step(loss.item())
        else:
            loop.scheduler.step()


def ended(loop: Loop) -> dict[str, Any]:
    """Everything that has to be the same at the end of two runs that are the same."""
    return {
        "parameters": {name: param.detach().clone() for name, param in loop.model.named_parameters()},
        "gradients": [param.grad for param in loop.model.parameters()],
        "optimizer": loop.inner.state_dict(),
        "scheduler": loop.scheduler.state_dict() if loop.scheduler else {},
        "random": random_states(),
        "losses": loop.losses,
    }


def assert_same_end(one: Loop, other: Loop, *, but: tuple[str, ...] = ()) -> None:
    """Assert that two runs ended with the same bytes, apart from the parts named in `but`."""
    ends = [{name: part for name, part in loop.end.items() if name not in but} for loop in (one, other)]
    found = differences(*ends)
    assert not found, "\n".join(found)


def wrapped(folder: Path, edits: Mapping[int, Edit] | None = None, **changed: Any) -> dict[str, Any]:
    """Arguments of `wrap`: three decisions, at updates 20, 30 and 40, of which `edits` answers some."""
    arguments: dict[str, Any] = {
        "total_steps": UPDATES,
        "goal": "the lowest loss on small random data",
        "backend": ScriptedBackend(edits),
        "every": 10,
        "schedule": [SWITCH, 30, 40],
        "trial_steps": 5,
        "run_dir": folder / "run",
        "share_code": False,
    }
    return {**arguments, **changed}


def kinds(loop: Loop) -> list[str]:
    """The kinds of the recorded events that concern programs, in order."""
    of_programs = (
        events.ProgramApplied, events.ProgramRefused, events.ProgramFailed, events.ProgramReverted, events.TrialPassed,
    )  # fmt: skip
    return [type(event).__name__ for event in loop.record.events if isinstance(event, of_programs)]
