"""The analysis is called at its updates: what it needs is prepared one update before, what it says is kept."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import torch

from opal.engine.activations import ActivationTap
from opal.engine.timing import UpdateClock
from opal.programs.analysis import Analysis, Analyzed, Observation, call_analysis
from opal.programs.failure import describe_failure
from opal.programs.running import NamedParams
from opal.programs.slots import ProgramSlots
from opal.types import Failure, Report

_MAX_REPORTS = 400
_MAX_LOSSES = 100_000


class Measurement:
    """Calls the running program's analysis. One that failed is not called again until it is edited."""

    def __init__(
        self,
        *,
        slots: ProgramSlots,
        named_params: NamedParams,
        clock: UpdateClock,
        tap: ActivationTap,
        total_steps: int,
        updates_per_epoch: float | None,
    ) -> None:
        self._slots = slots
        self._named_params = named_params
        self._params: list[torch.Tensor] = [param for _, param in named_params]
        self._on_cpu = all(param.is_cpu for param in self._params)
        self._clock = clock
        self._tap = tap
        self._total_steps = total_steps
        self.updates_per_epoch = updates_per_epoch
        self._copies: list[torch.Tensor] | None = None
        self._copied_before = -1
        self._losses: deque[float] = deque(maxlen=_MAX_LOSSES)
        self._failed: Analysis | None = None
        self.memory: dict[str, Any] = {}
        self.reports: deque[Report] = deque(maxlen=_MAX_REPORTS)

    @property
    def every(self) -> int:
        """The running analysis's interval."""
        return self._slots.running.analysis.every

    def is_due(self, update: int) -> bool:
        """Whether the analysis is called before `update`."""
        analysis = self._slots.running.analysis
        return update % analysis.every == 0 and analysis is not self._failed

    def observe(self, losses: list[float | None]) -> None:
        """Losses that a check read."""
        self._losses.extend([math.nan if loss is None else loss for loss in losses])

    @torch.no_grad()
    def prepare(self, update: int) -> None:
        """Get ready for a call before `update + 1`: copy the parameters, keep the coming forward pass's outputs."""
        self._tap.arm()
        if not self._slots.running.analysis.needs_last_step:
            return
        if self._copies is None:
            self._copies = [param.detach().clone() for param in self._params]
        else:
            torch._foreach_copy_(self._copies, self._params)
        self._copied_before = update

    def call(self, update: int, metrics: list[dict[str, Any]]) -> Analyzed | Failure:
        """Call the analysis before `update`; a failure keeps it from being called again."""
        analysis = self._slots.running.analysis
        observation = Observation(
            update=update,
            total_updates=self._total_steps,
            losses=list(self._losses),
            params=dict(self._named_params),
            grads={name: param.grad for name, param in self._named_params},
            last_step=self._last_step(analysis, update),
            updater=self._slots.running.updater,
            metrics=metrics,
            program_ms_per_update=self._clock.program_ms,
            wall_ms_per_update=self._clock.wall_ms,
            activations=self._tap.take(),
            updates_per_epoch=self.updates_per_epoch,
        )
        self._losses.clear()
        try:
            result = call_analysis(analysis, observation, self.memory)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._failed = analysis
            return self._describe(error, analysis, update)
        if result.report is not None:
            self.reports.append(result.report)
        return result

    @torch.no_grad()
    def _last_step(self, analysis: Analysis, update: int) -> dict[str, torch.Tensor] | None:
        """What the previous update changed, if the parameters were copied right before it; the copies become it."""
        copies, copied_before, self._copied_before = self._copies, self._copied_before, -1
        if not analysis.needs_last_step or copies is None or copied_before != update - 1:
            return None
        if self._on_cpu:
            for param, copy in zip(self._params, copies, strict=True):
                torch.sub(param, copy, out=copy)
        else:  # few kernels count for more there than one pass over the memory
            torch._foreach_sub_(copies, self._params)
            torch._foreach_neg_(copies)
        return dict(zip([name for name, _ in self._named_params], copies, strict=True))

    def _describe(self, error: BaseException, analysis: Analysis, update: int) -> Failure:
        running = self._slots.running.version
        return describe_failure(
            error,
            version=running,
            version_in_traceback=analysis.version,
            stage="analysis",
            update=update,
            undone="nothing to undo",
            goes_on_with=running,
        )


def updates_per_epoch(*, epochs: Any, total_steps: int, train_size: Any, batch_size: Any) -> float | None:
    """Updates in an epoch, from what the person stated, where that says it."""
    if _is_number(train_size) and _is_number(batch_size):
        return max(1.0, float(train_size) / float(batch_size))
    if _is_number(epochs):
        return max(1.0, total_steps / float(epochs))
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
