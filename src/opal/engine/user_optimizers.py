"""The script's optimizers: which parameters they hold, under which names, and that the set stays as it was."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from opal.errors import ArgumentTypeError, ArgumentValueError, NotBuiltError, RunStateError

# Prefixes that wrappers put before a parameter's name: DistributedDataParallel, torch.compile, FSDP, checkpointing.
_WRAPPER_PARTS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


class UserOptimizers:
    """The optimizers that were given to `wrap`, in order.

    `named_params` holds (name, parameter) for every parameter that they update, in the model's order, tied ones once;
    parameters that are not the model's follow as `extra.N`.
    """

    def __init__(self, optimizers: list[torch.optim.Optimizer], model: torch.nn.Module) -> None:
        self.optimizers = optimizers
        self.named_params = _named_params(optimizers, model)
        self._sizes = self._group_sizes()
        self._members = self._membership()
        self._watched: list[tuple[torch.optim.Optimizer, Any]] = []

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all optimizers; of a single one its own list."""
        if len(self.optimizers) == 1:
            return self.optimizers[0].param_groups
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @property
    def state(self) -> Any:
        """The state of all optimizers by parameter; of a single one its own mapping."""
        if len(self.optimizers) == 1:
            return self.optimizers[0].state
        return {key: value for optimizer in self.optimizers for key, value in optimizer.state.items()}

    def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when somebody adds a group to one of the optimizers."""
        for optimizer in self.optimizers:
            original = optimizer.add_param_group

            def add(group: dict[str, Any], original: Callable[[dict[str, Any]], None] = original) -> None:
                original(group)
                on_change()

            self._watched.append((optimizer, add))
            optimizer.add_param_group = add  # type: ignore[method-assign, assignment]

    def unwatch(self) -> None:
        """Take away what `watch` put there, unless somebody else put theirs on top."""
        for optimizer, add in self._watched:
            if optimizer.__dict__.get("add_param_group") is add:
                del optimizer.__dict__["add_param_group"]
        self._watched.clear()

    def verify_sizes(self) -> None:
        """Raise if the groups have grown or shrunk: work in proportion to the number of groups."""
        if self._group_sizes() != self._sizes:
            self._refuse()

    def verify(self) -> None:
        """Raise if the set of parameters is another one than at `wrap`: work in proportion to the number of tensors."""
        if self._membership() != self._members:
            self._refuse()

    def _group_sizes(self) -> list[int]:
        return [len(group["params"]) for optimizer in self.optimizers for group in optimizer.param_groups]

    def _membership(self) -> list[int]:
        groups = (group for optimizer in self.optimizers for group in optimizer.param_groups)
        return sorted({id(param) for group in groups for param in group["params"]})

    def _refuse(self) -> None:
        raise RunStateError(
            "the parameters in the optimizer are not those that it had at opal.wrap(): the set is fixed for the run. "
            "For layers that are unfrozen later, make their group before wrap, with requires_grad=False, and set "
            "requires_grad=True when their time comes"
        )


def check_optimizers(value: Any) -> list[torch.optim.Optimizer]:
    """The optimizers as a list.

    Raises:
        ArgumentTypeError, ArgumentValueError, NotBuiltError: they cannot be wrapped; the text says why.
    """
    optimizers = list(value) if isinstance(value, list | tuple) else [value]
    if not optimizers:
        raise ArgumentValueError("optimizer", value, "an optimizer, or a list of at least one")
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ArgumentTypeError("optimizer", optimizer, "a torch.optim.Optimizer, or a list of them")
        name = type(optimizer).__name__
        if name == "AgentOptimizer":
            raise ArgumentValueError("optimizer", name, "it is wrapped already; wrap the optimizer inside")
        if name == "AcceleratedOptimizer":
            raise NotBuiltError("wrapping an optimizer prepared by Accelerate", "wrap a plain optimizer")
        if isinstance(optimizer, torch.optim.LBFGS) or _needs_closure(optimizer):
            raise ArgumentValueError(
                "optimizer",
                name,
                "it works only with a closure, which it calls many times; use a first-order optimizer",
            )
    seen: set[int] = set()
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        for param in group["params"]:
            if id(param) in seen and len(optimizers) > 1:
                raise ArgumentValueError("optimizer", "…", "a parameter is in two of the optimizers; give it to one")
            seen.add(id(param))
    return optimizers


def _needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether `step()` cannot be called without an argument."""
    try:
        inspect.signature(type(optimizer).step).bind(optimizer)
    except TypeError:
        return True
    except ValueError:
        return False
    return False


def clean_name(name: str) -> str:
    """A parameter's or module's name without what wrappers put into it."""
    for part in _WRAPPER_PARTS:
        while name.startswith(part):
            name = name[len(part) :]
        name = name.replace(f".{part}", ".")
    return name


def _named_params(
    optimizers: list[torch.optim.Optimizer], model: torch.nn.Module
) -> list[tuple[str, torch.nn.Parameter]]:
    held = [param for optimizer in optimizers for group in optimizer.param_groups for param in group["params"]]
    ids = {id(param) for param in held}
    strip = clean_name if _is_wrapper(model) else str
    named = [(strip(name), param) for name, param in model.named_parameters() if id(param) in ids]
    if held and not named:
        raise ArgumentValueError(
            "model", type(model).__name__, "it has none of the optimizer's parameters; give the model that is trained"
        )
    of_model = {id(param) for _, param in named}
    extras: dict[int, torch.nn.Parameter] = {id(param): param for param in held if id(param) not in of_model}
    return named + [(f"extra.{index}", param) for index, param in enumerate(extras.values())]


def _is_wrapper(model: torch.nn.Module) -> bool:
    """Whether names need cleaning: a model of one's own may well have a part called `module`."""
    names = {type(part).__name__ for part in model.modules()}
    return bool(
        names & {"DistributedDataParallel", "DataParallel", "OptimizedModule", "FullyShardedDataParallel",
                 "CheckpointWrapper"}
    )  # fmt: skip
