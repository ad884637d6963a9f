"""A training loop that runs plain or wrapped, line for line the same, and says where it ended."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

import opal
from cases.fingerprint import differences, random_states, seed_everything, sha256
from cases.models import Mlp, ModelMaker
from cases.schedulers import SchedulerMaker
from opal.records.events import AnalysisFailed, Warned
from opal.records.reader import read_run

UPDATES = 120
DECISIONS = (20, 40, 70, 100)

Placement: TypeAlias = Literal["given", "not given", "on the wrapper"]
LossForm: TypeAlias = Literal["tensor", "float", "numpy", "one element", "none", "observed", "overwritten"]


def adamw(model: nn.Module) -> list[Optimizer]:
    """One AdamW over everything."""
    return [torch.optim.AdamW(model.parameters(), lr=0.01)]


@dataclass(frozen=True, kw_only=True)
class Script:
    """A training script. `schedulers` has one for each optimizer, or is empty.

    `placement` says when the schedulers are built and whether `wrap` is told of them; `clip` is the largest norm for
    clipping in the loop, which a wrapped run leaves out where it is handed over (and given to `wrap`); `loss_form` is
    how a wrapped run hands the loss over; `prepare` gets each optimizer before it is wrapped.
    """

    model: ModelMaker = Mlp
    optimizers: Callable[[nn.Module], list[Optimizer]] = adamw
    schedulers: tuple[SchedulerMaker, ...] = ()
    placement: Placement = "given"
    updates: int = UPDATES
    clip: float | None = None
    clip_handed_over: bool = False
    closure: bool = False
    accumulate: int = 1
    set_to_none: bool = True
    loss_form: LossForm = "tensor"
    prepare: Callable[[Optimizer], object] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Where a run ended."""

    parameters: str
    losses: list[float]
    rates: list[list[float]]
    last_rates: list[Any]
    optimizers: list[dict[str, Any]]
    schedulers: list[dict[str, Any]]
    gradients: list[Any]
    random: dict[str, str]
    warned: list[tuple[str, str]]
    returned: list[Any]
    optimizer: Any = field(repr=False)
    model: nn.Module = field(repr=False)

    @property
    def run_dir(self) -> Path:
        """The run folder of a wrapped run."""
        return Path(self.optimizer.run_dir)


def train(script: Script, wrap: Mapping[str, Any] | None = None) -> Trained:
    """Run a script: plain, or with its optimizers wrapped by `opal.wrap` with these arguments."""
    seed_everything()
    with _every_warning() as caught:
        loop = _Loop(script, wrap)
        for _ in range(script.updates):
            loop.update()
        if wrap is not None:
            loop.handle.close()
        ended = loop.ended()
    return dataclasses.replace(ended, warned=[(item.category.__name__, str(item.message)) for item in caught])


def kept_like_plain(script: Script, folder: Path, **changed: Any) -> tuple[Trained, Trained]:
    """Run a script plain and wrapped, and assert that the second is the first. Returns both, for more questions.

    Four decisions were asked and kept where training waits, and at least one where it does not. The analysis has not
    failed, and nothing was warned of.
    """
    plain, wrapped = train(script), train(script, keep(folder, script, **changed))
    found = unlike(plain, wrapped)
    record = read_run(wrapped.run_dir)
    responses = [decision.response for decision in record.decisions.values()]
    kept = sum(response is not None and not response.edited for response in responses)
    if kept < (len(DECISIONS) if changed.get("blocking", True) is True else 1):
        found.append(f"{kept} decisions were kept")
    if record.final_version != "v000" or list(record.programs) != ["v000"]:
        found.append(f"programs {list(record.programs)}, {record.final_version} at the end")
    found += [repr(event) for event in record.events if isinstance(event, AnalysisFailed | Warned)]
    assert not found, "\n".join(found)
    return plain, wrapped


def keep(folder: Path, script: Script | None = None, **changed: Any) -> dict[str, Any]:
    """Arguments of `wrap` for a run with four decisions that keep everything, recorded below `folder`."""
    arguments = {
        "total_steps": script.updates if script else UPDATES,
        "goal": "the lowest loss on small random data",
        "backend": "keep",
        "every": 10,
        "schedule": list(DECISIONS),
        "run_dir": folder / "run",
        "share_code": False,
    }
    return {**arguments, **changed}


def unlike(plain: Trained, wrapped: Trained) -> list[str]:
    """Where two runs differ; empty where the second is the first, byte for byte."""
    found = [] if plain.parameters == wrapped.parameters else ["the parameters have another SHA-256"]
    for name in ("losses", "rates", "last_rates", "optimizers", "schedulers", "gradients", "random", "warned",
                 "returned"):  # fmt: skip
        found += differences(getattr(plain, name), getattr(wrapped, name), name)
    return found


@contextmanager
def _every_warning() -> Iterator[list[warnings.WarningMessage]]:
    """Collects warnings, also those that torch gives once in a process: the second run would miss them."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    finally:
        torch.set_warn_always(before)


class _Loop:
    """The script's objects. Plain and wrapped take the same path but for `step`."""

    def __init__(self, script: Script, wrap: Mapping[str, Any] | None) -> None:
        self._script = script
        self._wrapped = wrap is not None
        self._data = torch.Generator().manual_seed(1)
        self._losses: list[float] = []
        self._rates: list[list[float]] = []
        self._returned: list[Any] = []
        self.model = script.model()
        self.optimizers = script.optimizers(self.model)
        for optimizer in self.optimizers:
            script.prepare(optimizer)
        late = self._wrapped and script.placement == "on the wrapper"
        self.schedulers: list[LRScheduler] = [] if late else self._make_schedulers(self.optimizers)
        self.handle: Any = None
        if wrap is not None:
            given = {"scheduler": self.schedulers} if script.placement == "given" and self.schedulers else {}
            several = self.optimizers if len(self.optimizers) > 1 else self.optimizers[0]
            self.handle = opal.wrap(several, self.model, **given, **wrap)
        if late:
            self.schedulers = self._make_schedulers([self.handle])

    def update(self) -> None:
        """One turn of the loop."""
        if self._script.closure:
            self._step_with_closure()
        else:
            loss = self._forward_and_backward()
            self._clip()
            self._step(loss)
            self._zero_grad()
        for scheduler in self.schedulers:
            if isinstance(scheduler, ReduceLROnPlateau):
                scheduler.step(self._losses[-1])
            else:
                scheduler.step()
        groups = [group for optimizer in self._in_force() for group in optimizer.param_groups]
        self._rates.append([float(group["lr"]) for group in groups])

    def ended(self) -> Trained:
        """What the run has come to."""
        params = [(name, param) for name, param in self.model.named_parameters()]
        return Trained(
            parameters=sha256(params),
            losses=self._losses,
            rates=self._rates,
            last_rates=[scheduler.get_last_lr() for scheduler in self.schedulers],
            optimizers=[optimizer.state_dict() for optimizer in self.optimizers],
            schedulers=[scheduler.state_dict() for scheduler in self.schedulers],
            gradients=[param.grad for _, param in params],
            random=random_states(),
            warned=[],
            returned=self._returned,
            optimizer=self.handle if self._wrapped else self.optimizers[0],
            model=self.model,
        )

    def _make_schedulers(self, optimizers: list[Any]) -> list[LRScheduler]:
        makers = self._script.schedulers
        return [make(one, self._script.updates) for make, one in zip(makers, optimizers, strict=bool(makers))]

    def _in_force(self) -> list[Any]:
        return [self.handle] if self._wrapped else list(self.optimizers)

    def _forward_and_backward(self) -> torch.Tensor:
        total = torch.zeros(())
        for _ in range(self._script.accumulate):
            loss = self.model.loss(self._data) / self._script.accumulate
            loss.backward()
            total = total + loss.detach()
        self._losses.append(total.item())
        return total

    def _step(self, loss: torch.Tensor) -> None:
        if not self._wrapped:
            self._returned.append([optimizer.step() for optimizer in self.optimizers][-1])
            return
        form = self._script.loss_form
        if form == "observed":
            self.handle.observe(loss)
            loss.fill_(float("nan"))
        forms = {"tensor": lambda: loss, "float": loss.item, "numpy": loss.numpy, "one element": lambda: loss.view(1)}
        given = loss if form == "overwritten" else forms[form]() if form in forms else None
        self._returned.append(self.handle.step() if given is None else self.handle.step(loss=given))
        if form == "overwritten":
            loss.fill_(float("nan"))

    def _clip(self) -> None:
        script = self._script
        if script.clip is not None and not (self._wrapped and script.clip_handed_over):
            nn.utils.clip_grad_norm_(self.model.parameters(), script.clip)

    def _step_with_closure(self) -> None:
        def closure() -> torch.Tensor:
            self._zero_grad()
            return self._forward_and_backward()

        self._returned.append([optimizer.step(closure) for optimizer in self._in_force()][-1])

    def _zero_grad(self) -> None:
        for optimizer in self._in_force():
            optimizer.zero_grad(set_to_none=self._script.set_to_none)
