"""Step hooks of the script's optimizers, while a program updates without calling them.

The starting program steps the optimizers, whose hooks then run by themselves. Any other program may or may not step
them; a hook, such as one that keeps an average of the weights, must run once per update all the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

_PRE, _POST = "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"
_MARK = -1  # torch numbers its hooks from 0


class InnerHooks:
    """Takes the hooks away from the optimizers inside and runs them around each update; gives them back."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        self._taken: list[tuple[torch.optim.Optimizer, Any, Any]] = []
        self._stepped: set[int] = set()

    def __bool__(self) -> bool:
        """Whether there is anything to run around an update."""
        return bool(
            any(pre or post for _, pre, post in self._taken)
            or torch_optimizer._global_optimizer_pre_hooks
            or torch_optimizer._global_optimizer_post_hooks
        )

    def take(self) -> None:
        """The optimizers keep empty places for hooks; a handle's `remove` still works on what was taken."""
        if self._taken:
            return
        for optimizer in self._optimizers:
            self._taken.append((optimizer, getattr(optimizer, _PRE), getattr(optimizer, _POST)))
            setattr(optimizer, _PRE, OrderedDict({_MARK: self._note_step}))
            setattr(optimizer, _POST, OrderedDict())

    def release(self) -> None:
        """Give the hooks back, with those that were registered meanwhile."""
        for optimizer, pre, post in self._taken:
            getattr(optimizer, _PRE).pop(_MARK, None)
            pre.update(getattr(optimizer, _PRE))
            post.update(getattr(optimizer, _POST))
            setattr(optimizer, _PRE, pre)
            setattr(optimizer, _POST, post)
        self._taken.clear()

    def around(self, apply: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """`apply` with the hooks before and after it, called as an optimizer's `step()` calls them."""

        def applied(update: int, loss: Any) -> Any:
            # Torch runs the global hooks itself for an optimizer that the program steps; what it did last time counts.
            alone = [id(optimizer) for optimizer, _, _ in self._taken if id(optimizer) not in self._stepped]
            self._stepped.clear()
            for optimizer, pre, _ in list(self._taken):
                before = torch_optimizer._global_optimizer_pre_hooks if id(optimizer) in alone else {}
                _call([*before.values(), *pre.values()], optimizer)
            result = apply(update, loss)
            for optimizer, _, post in list(self._taken):
                after = torch_optimizer._global_optimizer_post_hooks if id(optimizer) in alone else {}
                _call([*post.values(), *after.values()], optimizer)
            return result

        return applied

    def _note_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._stepped.add(id(optimizer))


def _call(hooks: list[Any], optimizer: torch.optim.Optimizer) -> None:
    for hook in hooks:
        hook(optimizer, (optimizer,), {})
