"""The script's schedule, paused while a program sets its own rates, and continued as if it had never been paused.

A paused scheduler goes on computing, on shadow groups: whatever it is told moves nothing in the script's optimizers,
and when control returns, their groups get what the scheduler would have given them. It works for any kind. A script
without a scheduler gets the rates back that it had.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch.optim.lr_scheduler import LRScheduler

from opal.errors import ArgumentTypeError

Shadows: TypeAlias = "dict[int, _ShadowOptimizer]"

_MODULES = ("torch.optim.lr_scheduler", "torch.optim.swa_utils")


class UserSchedulers:
    """The schedulers that were given to `wrap` or adopted, and whether they are paused.

    One that was built on the wrapper moves the groups of the script's optimizers, as one built on these does.
    """

    def __init__(
        self,
        schedulers: list[LRScheduler],
        optimizers: list[torch.optim.Optimizer],
        on_adopted: Callable[[str], None],
    ) -> None:
        self.schedulers = schedulers
        self._optimizers = optimizers
        self._on_adopted = on_adopted
        self._shadows: Shadows | None = None
        self._rates: Callable[[], list[Any]] = list

    @property
    def paused(self) -> bool:
        """Whether the running program sets its own rates."""
        return self._shadows is not None

    def shadow(self) -> Shadows:
        """Copies of the groups of the script's optimizers as they are now; none where the schedulers are paused."""
        if self.paused:
            return {}
        return {id(optimizer): _ShadowOptimizer(optimizer) for optimizer in self._optimizers}

    def pause(self, shadows: Shadows, rates: Callable[[], list[Any]]) -> None:
        """Let the schedulers go on on `shadows`, taken before the program was built; `rates` gives those in force."""
        self._rates = rates
        if self.paused:
            return
        self._shadows = shadows
        for scheduler in self.schedulers:
            for part in _parts(scheduler):
                self._put_on_shadow(part)

    def resume(self, *, everything: bool) -> None:
        """Give control back: the groups get what the schedulers have set meanwhile.

        With `everything` they also lose what the program had written into them.
        """
        if self._shadows is None:
            return
        shadows = self._shadows
        self._take_off()
        for optimizer in self._optimizers:
            shadows[id(optimizer)].write_back(everything=everything)

    def capture(self) -> tuple[Shadows | None, Callable[[], list[Any]]]:
        """Who is in control, for `put_back`."""
        return self._shadows, self._rates

    def put_back(self, captured: tuple[Shadows | None, Callable[[], list[Any]]]) -> None:
        """Make it so again; the groups' values are the caller's matter."""
        shadows, rates = captured
        self._take_off()
        if shadows is not None:
            self.pause(shadows, rates)

    def _take_off(self) -> None:
        if self._shadows is None:
            return
        self._shadows = None
        for scheduler in self.schedulers:
            for part in _parts(scheduler):
                part.optimizer = getattr(part.optimizer, "original", part.optimizer)
                part.__class__ = getattr(part, "_opal_plain_class", type(part))

    def adopt(self, scheduler: LRScheduler) -> None:
        """Take over a scheduler that was built on the wrapped optimizer."""
        if any(scheduler is part for known in self.schedulers for part in _parts(known)):
            return
        self.schedulers.append(scheduler)
        if self._shadows is not None:
            self._put_on_shadow(scheduler)
        self._on_adopted(type(scheduler).__name__)

    def _put_on_shadow(self, part: LRScheduler) -> None:
        assert self._shadows is not None
        shadow = self._shadows.get(id(part.optimizer))
        if shadow is None:
            if type(part.optimizer).__name__ != "AgentOptimizer":
                return  # it moves an optimizer that is none of this run's
            inside = [self._shadows[id(optimizer)] for optimizer in self._optimizers]
            shadow = self._shadows[id(part.optimizer)] = _ShadowOptimizer(part.optimizer, inside)
        part.optimizer = shadow
        part.__class__ = _paused_class(type(part), self)

    def rates_in_force(self) -> list[Any]:
        """What `get_last_lr()` says while the program sets its own rates."""
        return self._rates()


class _ShadowOptimizer(torch.optim.Optimizer):
    """Groups of an optimizer, copied without parameters' values: what a paused scheduler moves.

    `inside`: shadows that have the groups already, where the original is the wrapper.
    """

    def __init__(self, original: torch.optim.Optimizer, inside: list[_ShadowOptimizer] | None = None) -> None:
        # Not Optimizer.__init__: it would make groups, and patch step of the class, for something that never steps.
        self.original = original
        self.defaults = original.defaults
        self.state = original.state
        if inside is None:
            self.param_groups = [_copied(group) for group in original.param_groups]
            self._before = [_copied(group) for group in original.param_groups]
        else:
            self.param_groups = [group for shadow in inside for group in shadow.param_groups]
        self._opt_called = True

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """A shadow never steps; the scheduler only looks whether it did."""

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    step.hooked = True  # type: ignore[attr-defined]

    def write_back(self, *, everything: bool) -> None:
        """Give the groups the options that the scheduler has set, or all that they had before and would have now."""
        for group, shadow, before in zip(self.original.param_groups, self.param_groups, self._before, strict=False):
            for key, value in shadow.items():
                if key == "params" or not (everything or key == "lr" or _differs(value, before.get(key))):
                    continue
                if isinstance(group.get(key), torch.Tensor) and isinstance(value, torch.Tensor):
                    group[key].copy_(value)
                else:
                    group[key] = value


def check_schedulers(value: Any) -> list[LRScheduler]:
    """The schedulers as a list.

    Raises:
        ArgumentTypeError: one of them is none.
    """
    if value is None:
        return []
    schedulers = list(value) if isinstance(value, list | tuple) else [value]
    for scheduler in schedulers:
        if not isinstance(scheduler, LRScheduler):
            raise ArgumentTypeError(
                "scheduler", scheduler, "a scheduler of torch.optim.lr_scheduler, or a list of them"
            )
    return schedulers


def calling_scheduler(depth: int) -> LRScheduler | None:
    """The scheduler whose method, in torch's own module, is `depth` frames up; None for any other caller.

    Every scheduler reads the groups there when it is built, which is how one that was not given to `wrap` is found.
    """
    frame = sys._getframe(depth)
    if frame.f_globals.get("__name__") not in _MODULES:
        return None
    while frame.f_back is not None and frame.f_globals.get("__name__") in _MODULES:
        caller = frame.f_locals.get("self")
        if isinstance(caller, LRScheduler):
            return caller
        frame = frame.f_back
    return None


def _parts(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    """A scheduler and those inside it."""
    todo, seen = [scheduler], set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        for value in vars(part).values():
            inner = value if isinstance(value, list | tuple) else [value]
            todo += [item for item in inner if isinstance(item, LRScheduler)]


def _differs(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return not torch.equal(one, other)
    return bool(one != other)


def _copied(group: dict[str, Any]) -> dict[str, Any]:
    options = {
        key: value.clone() if isinstance(value, torch.Tensor) else copy.copy(value)
        for key, value in group.items()
        if key != "params"
    }
    return {"params": group["params"], **options}


def _paused_class(kind: type[LRScheduler], owner: UserSchedulers) -> type[LRScheduler]:
    """The same class, but for `get_last_lr()`; pickled and copied as the plain one."""

    def get_last_lr(self: LRScheduler) -> list[Any]:
        # Schedulers that hold others ask them, and remember what they say.
        asked_by_another = sys._getframe(1).f_globals.get("__name__") in _MODULES
        rates = [] if asked_by_another else owner.rates_in_force()
        return rates if rates else kind.get_last_lr(self)

    def reduce_ex(self: LRScheduler, protocol: Any) -> Any:
        state = {key: value for key, value in self.__dict__.items() if key != "optimizer"}
        original = getattr(self.optimizer, "original", self.optimizer)
        return (kind.__new__, (kind,), {**state, "optimizer": original})

    members = {"get_last_lr": get_last_lr, "__reduce_ex__": reduce_ex, "_opal_plain_class": kind}
    return type(kind.__name__, (kind,), {**members, "__module__": kind.__module__, "__qualname__": kind.__qualname__})
