"""Step hooks of the script's optimizers, while a program updates without calling them.

The starting program steps the optimizers, whose hooks then run by themselves. Any other program may or may not step
them, or others of its own; a hook, such as one that keeps an average of the weights, must run once per update all the
same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

_PRE, _POST = "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"
_GLOBAL = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")


class InnerHooks:
    """Takes the hooks away from the optimizers inside and runs them around each update; gives them back."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        self._taken: list[tuple[torch.optim.Optimizer, Any, Any]] = []
        self._rounds = 0

    def __bool__(self) -> bool:
        """Whether there is anything to run around an update."""
        return any(pre or post for _, pre, post in self._taken) or any(
            getattr(torch_optimizer, name) for name in _GLOBAL
        )

    def take(self) -> None:
        """The optimizers keep empty places for hooks; a handle's `remove` still works on what was taken."""
        if self._taken:
            return
        for optimizer in self._optimizers:
            self._taken.append((optimizer, getattr(optimizer, _PRE), getattr(optimizer, _POST)))
            setattr(optimizer, _PRE, OrderedDict())
            setattr(optimizer, _POST, OrderedDict())

    def release(self) -> None:
        """Give the hooks back, with those that were registered meanwhile."""
        for optimizer, pre, post in self._taken:
            pre.update(getattr(optimizer, _PRE))
            post.update(getattr(optimizer, _POST))
            setattr(optimizer, _PRE, pre)
            setattr(optimizer, _POST, post)
        self._taken.clear()

    def around(self, apply: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """`apply` with the hooks before and after it, called as an optimizer's `step()` calls them."""

        def applied(update: int, loss: Any) -> Any:
            this_round, taken = self._rounds, list(self._taken)
            for optimizer, pre, _ in taken:
                _call([*torch_optimizer._global_optimizer_pre_hooks.values(), *pre.values()], optimizer)
            result = apply(update, loss)
            for optimizer, _, post in taken if self._rounds == this_round else []:
                _call([*post.values(), *torch_optimizer._global_optimizer_post_hooks.values()], optimizer)
            return result

        return applied

    def made_again(self) -> None:
        """The update in progress was undone, and is made by another program, with the hooks before and after it."""
        self._rounds += 1

    def hiding_global_ones(self, call: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """`call` without the hooks of all optimizers: whatever the program steps must not run them once more."""

        def called(update: int, loss: Any) -> Any:
            hidden = [(name, getattr(torch_optimizer, name)) for name in _GLOBAL]
            for name, _ in hidden:
                setattr(torch_optimizer, name, OrderedDict())
            try:
                return call(update, loss)
            finally:
                for name, hooks in hidden:
                    hooks.update(getattr(torch_optimizer, name))
                    setattr(torch_optimizer, name, hooks)

        return called


def _call(hooks: list[Any], optimizer: torch.optim.Optimizer) -> None:
    for hook in hooks:
        hook(optimizer, (optimizer,), {})
