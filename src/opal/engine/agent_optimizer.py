"""The wrapped optimizer: a `torch.optim.Optimizer` whose rule is a program that may be replaced while it runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from opal.engine.user_schedulers import calling_scheduler
from opal.errors import ArgumentTypeError, NotBuiltError, RunStateError
from opal.programs.running import groups_in_force

if TYPE_CHECKING:
    from opal.engine.run_parts import RunParts

Loss = float | torch.Tensor | None


class AgentOptimizer(torch.optim.Optimizer):
    """Made by `opal.wrap`. Everything that works with the optimizer inside works with this one."""

    def __init__(self, parts: RunParts) -> None:
        # Not Optimizer.__init__: groups and state are those of the running program, and hooks are run here.
        self._parts = parts
        self._progress = parts.progress
        self._timeline = parts.timeline
        self._ring = parts.ring
        self._applier = parts.applier
        self._observed: Loss = None
        self._on_cuda = any(param.is_cuda for _, param in parts.optimizers.named_params)
        self._groups: tuple[Any, list[dict[str, Any]]] = (None, [])
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()

    # ── An update ────────────────────────────────────────────────────────────────────────────────────────────────

    def step(self, closure: Callable[[], Any] | None = None, loss: Loss = None) -> Any:
        """Make one update.

        Args:
            closure: evaluated once, with gradients enabled, before the update; its value is the loss.
            loss: the loss of this update, a number or a tensor with one element on any device.

        Returns:
            The closure's value, or what the inner step returns.

        Raises:
            ArgumentTypeError, ArgumentValueError: `loss` is neither.
            RunStateError: the set of parameters has changed, or a CUDA graph is being captured.
        """
        if self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            return self._step_with_hooks(closure, loss)
        if closure is not None:
            return self._step_with_closure(closure, loss)
        return self._make_update(loss)

    # Torch would wrap the method of the class to run hooks; they are run above.
    step.hooked = True  # type: ignore[attr-defined]

    def _make_update(self, loss: Loss) -> Any:
        """The phases of an update."""
        update = self._progress.update + 1
        if loss is None:
            loss, self._observed = self._observed, None
        self._ring.put(update, loss)
        if update >= self._timeline.next_due:
            self._parts.upkeep.before(update)
        if self._on_cuda:
            _refuse_capture()
        result = self._applier.apply(update, loss)
        self._progress.update = update
        return result

    def _step_with_closure(self, closure: Callable[[], Any], loss: Loss) -> Any:
        with torch.enable_grad():
            value = closure()
        self._make_update(value if loss is None else loss)
        return value

    def _step_with_hooks(self, closure: Callable[[], Any] | None, loss: Loss) -> Any:
        """A step with the hooks that were registered on the wrapper, called as torch calls them."""
        args: tuple[Any, ...] = (self,) if closure is None else (self, closure)  # torch counts the optimizer in
        kwargs: dict[str, Any] = {} if loss is None else {"loss": loss}
        for hook in list(self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise ArgumentTypeError("hook", changed, "a step pre-hook returns None or (args, kwargs)")
                args, kwargs = changed
        result = AgentOptimizer._step_from(*args, **kwargs)
        for post_hook in list(self._optimizer_step_post_hooks.values()):
            post_hook(self, args, kwargs)
        return result

    def _step_from(self, closure: Callable[[], Any] | None = None, loss: Loss = None) -> Any:
        return self._make_update(loss) if closure is None else self._step_with_closure(closure, loss)

    def observe(self, loss: float | torch.Tensor) -> None:
        """Give the loss of the coming update, when somebody else calls `step()`."""
        self._observed = loss.detach().clone() if isinstance(loss, torch.Tensor) else loss

    # ── What the script tells ────────────────────────────────────────────────────────────────────────────────────

    def log(self, values: Mapping[str, Any] | None = None, *, show_agent: bool = False, **kw: Any) -> None:
        """Record values, given as a dict or as keywords: numbers, or tensors with one element.

        The agent sees them only with `show_agent=True`.
        """
        for name, value in {**(values or {}), **kw}.items():
            self._parts.upkeep.metric(str(name), _value(str(name), value), shown=show_agent)

    def report_dev(
        self, loss: float | torch.Tensor | None = None, accuracy: float | None = None, update: int | None = None
    ) -> None:
        """Record a measurement on a development set, of the parameters after `update` (now, where it is not given)."""
        for name, value in (("dev_loss", loss), ("dev_accuracy", accuracy)):
            if value is not None:
                self._parts.upkeep.metric(name, _value(name, value), shown=False, development=True, update=update)

    # ── What torch asks ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The running program's groups; a parameter that it leaves out is in a group with `lr=nan`.

        A scheduler that was built on the wrapper gets those of the script's optimizers.
        """
        parts = self._parts
        scheduler = calling_scheduler(2)
        if scheduler is not None:
            parts.schedulers.adopt(scheduler)
            return parts.optimizers.param_groups
        running = parts.slots.running
        if running.is_starting:
            return parts.optimizers.param_groups
        groups = getattr(running.updater, "param_groups", None)
        key = (running, id(groups), len(groups) if isinstance(groups, list) else 0)
        if self._groups[0] != key:
            self._groups = (key, groups_in_force(running.updater, parts.optimizers.named_params))
        return self._groups[1]

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the script's optimizers."""
        return self._parts.optimizers.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The defaults of the script's first optimizer."""
        return self._parts.optimizers.optimizers[0].defaults

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Only an enabled GradScaler asks this, in its `step`."""
        raise NotBuiltError("an enabled GradScaler", "train in bfloat16 or float32, or without OPAL")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters."""
        self._parts.optimizers.verify_sizes()
        for optimizer in self._parts.optimizers.optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: the set of parameters is fixed for the run."""
        raise RunStateError(
            "the set of parameters is fixed at opal.wrap(): make the group before, with requires_grad=False, and set "
            "requires_grad=True when its time comes"
        )

    def state_dict(self) -> dict[str, Any]:
        """The state dict of the optimizer inside, as long as nothing was edited.

        Raises:
            NotBuiltError: a program was edited, or there are several optimizers.
        """
        return self._single("state_dict()").state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the optimizer inside from a plain checkpoint.

        Raises:
            NotBuiltError: a program was edited, or there are several optimizers.
        """
        self._single("load_state_dict()").load_state_dict(state_dict)
        self._parts.journal.warn_once(
            "a plain optimizer's checkpoint was loaded: it has no update count, decisions or programs, so the run "
            f"counts on from update {self._progress.update}"
        )

    def train(self) -> None:
        """Passed on to the optimizers inside that have it (schedule-free ones)."""
        self._call_inside("train")

    def eval(self) -> None:
        """Passed on to the optimizers inside that have it (schedule-free ones)."""
        self._call_inside("eval")

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy or a pickle is one of the optimizer inside: the run itself cannot be copied."""
        return (_same, (self._single("a copy"),))

    # ── The run ──────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self, interrupted: bool = False) -> None:
        """Settle what is in flight, end the records, release hooks and threads. A second call does nothing.

        With `interrupted` a run that ends early counts as one that will be resumed.
        """
        self._parts.closing.close(interrupted=interrupted)

    @property
    def run_dir(self) -> str:
        """The run folder."""
        return str(self._parts.folder.root)

    @property
    def update(self) -> int:
        """Updates made so far."""
        return self._progress.update

    @property
    def agent_wait_seconds(self) -> float:
        """Seconds that training has waited for the agent."""
        return self._parts.clock.agent_wait_seconds

    @property
    def cost_usd(self) -> float:
        """What the agent has cost, as far as it was reported."""
        return self._parts.decisions.cost_usd

    def _single(self, what: str) -> torch.optim.Optimizer:
        optimizers = self._parts.optimizers.optimizers
        if self._parts.slots.edited:
            raise NotBuiltError(f"{what} after an edit", "checkpoint before the first edit, or use backend='keep'")
        if len(optimizers) > 1:
            raise NotBuiltError(f"{what} of several optimizers", "call it on each optimizer inside")
        return optimizers[0]

    def _call_inside(self, name: str) -> None:
        for optimizer in self._parts.optimizers.optimizers:
            if callable(getattr(optimizer, name, None)):
                getattr(optimizer, name)()


def _same(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    return optimizer


def _value(name: str, value: Any) -> float:
    """A logged value as a number."""
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        raise ArgumentTypeError(
            name, f"a tensor of shape {tuple(value.shape)}", "a number or a tensor with one element"
        )
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(name, value, "a number or a tensor with one element") from None


def _refuse_capture() -> None:
    if torch.cuda.is_current_stream_capturing():
        raise RunStateError(
            "step() is being captured in a CUDA graph: capture the forward and backward passes, and call step() outside"
        )
