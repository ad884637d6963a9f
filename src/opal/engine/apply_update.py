"""A gradient becomes an update. The only place where a program's `step` is called."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from opal.checks.audit import UpdateAudit
from opal.engine.step_hooks import InnerHooks
from opal.engine.timing import UpdateClock
from opal.programs.running import Context, Gradients, NamedParams, RunningProgram

# `torch.no_grad()` does the same, at ten times the cost: a large part of what OPAL may add to a small update.
_set_grad_enabled = torch._C._set_grad_enabled

Loss = float | torch.Tensor | None
FailureHandler = Callable[[BaseException, int, Loss], Any]


class UpdateApplier:
    """Calls the running program. `apply(update, loss)` is chosen when a program is installed, not at every update."""

    def __init__(self, named_params: NamedParams, clock: UpdateClock, inner_hooks: InnerHooks) -> None:
        self._named_params = named_params
        self._clock = clock
        self._inner_hooks = inner_hooks
        self._call: Callable[[int, Loss], Any] = _not_installed
        self._usual: Callable[[int, Loss], Any] = _not_installed
        self._on_failure: FailureHandler = _raise
        self.apply: Callable[[int, Loss], Any] = _not_installed

    def on_failure(self, handler: FailureHandler) -> None:
        """Who deals with an update that a program failed."""
        self._on_failure = handler

    def install(self, program: RunningProgram) -> None:
        """Let `program` make the updates from now on."""
        self._call = self._caller(program)
        if program.is_starting:
            self._inner_hooks.release()
            self._usual = self._apply_starting
        else:
            self._inner_hooks.take()
            self._usual = self._apply_program
            if self._inner_hooks:
                self._call = self._inner_hooks.hiding_global_ones(self._call)
                self._usual = self._inner_hooks.around(self._usual)
        self.apply = self._usual

    def apply_again(self, update: int, loss: Loss) -> Any:
        """Make an update that another program failed, and that was undone, by the one in force now."""
        self._inner_hooks.made_again()
        return self.apply(update, loss)

    def audit_next(self, version: str, on_audited: Callable[[UpdateAudit], None]) -> None:
        """Count what the next update does; the ones after it are as before."""
        device = self._named_params[0][1].device.type if self._named_params else "cpu"

        def audited(update: int, loss: Loss) -> Any:
            self.apply = usual = self._usual
            with UpdateAudit(device, f"{version}/") as audit:
                result = usual(update, loss)
            if self._usual is usual:
                on_audited(audit)
            return result

        self.apply = audited

    def _caller(self, program: RunningProgram) -> Callable[[int, Loss], Any]:
        """The program's `step`, with what it takes."""
        step, params = program.step, self._named_params
        if program.takes_context:
            return lambda update, loss: step(Gradients(params), update, Context(update, self._loss_tensor(loss)))
        return lambda update, _: step(Gradients(params), update)

    def _apply_starting(self, update: int, loss: Loss) -> Any:
        """The script's own optimizers: what they raise is the script's matter."""
        began = perf_counter()
        result = self._call(update, loss)
        self._clock.program_seconds += perf_counter() - began
        return result

    def _apply_program(self, update: int, loss: Loss) -> Any:
        """Any other program: called without gradients; what it raises is dealt with."""
        began = perf_counter()
        enabled = torch.is_grad_enabled()
        _set_grad_enabled(False)
        try:
            self._call(update, loss)
        except BaseException as error:
            _set_grad_enabled(enabled)
            return self._failed(error, update, loss)
        _set_grad_enabled(enabled)
        self._clock.program_seconds += perf_counter() - began
        return None

    def _failed(self, error: BaseException, update: int, loss: Loss) -> Any:
        """Hand over what the program raised; an interruption from the keyboard is the person's."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        return self._on_failure(error, update, loss)

    def _loss_tensor(self, loss: Loss) -> torch.Tensor | None:
        if isinstance(loss, torch.Tensor):
            return loss.detach().reshape(())
        return None if loss is None else torch.tensor(float(loss), device=self._named_params[0][1].device)


def _not_installed(*_: Any) -> Any:
    raise AssertionError("no program is installed")


def _raise(error: BaseException, update: int, loss: Loss) -> Any:
    raise error
