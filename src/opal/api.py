"""The public functions: arguments become a configuration, and the configuration a wrapped optimizer."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from opal.config import parse, refuse_unknown
from opal.errors import ArgumentTypeError, InstallationError, NotBuiltError

_TORCH_NEEDED = (2, 5)


def _require_torch() -> None:
    """Say what to install where torch is missing or too old.

    Raises:
        InstallationError: it is.
    """
    needed = ".".join(map(str, _TORCH_NEEDED))
    try:
        import torch
    except ImportError as error:
        raise InstallationError(
            f"PyTorch is not installed here: install the build for your machine (pip install 'torch>={needed}')"
        ) from error
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if found < _TORCH_NEEDED:
        raise InstallationError(f"PyTorch {torch.__version__} is too old: OPAL needs {needed} or newer")


_require_torch()

# Importable only now that torch is known to be there.
from opal.backends.select import select_backend  # noqa: E402
from opal.distributed.select import select_coordinator  # noqa: E402
from opal.engine.agent_optimizer import AgentOptimizer  # noqa: E402
from opal.engine.assemble import Script, assemble  # noqa: E402
from opal.engine.user_optimizers import check_optimizers  # noqa: E402
from opal.engine.user_schedulers import check_schedulers  # noqa: E402

if TYPE_CHECKING:
    import torch
    from torch.optim.lr_scheduler import LRScheduler

__all__ = ["AgentOptimizer", "final_program", "replay", "wrap"]


def wrap(
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    model: torch.nn.Module,
    *,
    total_steps: int,
    goal: str,
    scheduler: LRScheduler | Sequence[LRScheduler] | None = None,
    backend: Any = "claude",
    backend_options: Mapping[str, Any] | None = None,
    decisions: int | None = None,
    schedule: str | Sequence[tuple[float, int]] | Sequence[int] = "front",
    max_decisions: int | None = None,
    max_cost_usd: float | None = None,
    max_wait_hours: float | None = None,
    every: int = 50,
    blocking: bool | Literal["auto"] = True,
    max_lag_updates: int = 50,
    show_next_decision: bool = True,
    clip_grad_norm: float | None = None,
    bounds: Mapping[str, Any] | None = None,
    prompt: str | os.PathLike[str] = "neutral",
    task_facts: str | None = None,
    epochs: float | str | None = None,
    train_size: float | str | None = None,
    batch_size: float | str | None = None,
    same_order_each_epoch: bool | str | None = None,
    share_code: bool | Sequence[str] = True,
    validation: int | None = None,
    validation_size: float | str | None = None,
    eval_integrity: bool | None = None,
    eval_integrity_threshold: float = 5,
    activations: Sequence[str] | None = None,
    trial_steps: int = 20,
    snapshot_limit_gb: float = 2.0,
    gate: Literal["warn", "revert", "off"] = "warn",
    preflight: bool = True,
    step_timeout: float = 60,
    boundary: Literal["flag", "block"] = "flag",
    approve: Literal["ask"] | None = None,
    sync_every: int = 20,
    rank_check_every: int = 100,
    pause_on_nonfinite: bool = True,
    run_dir: str | os.PathLike[str] | None = None,
    program: str | os.PathLike[str] | None = None,
    summarize: bool | str = True,
    trackers: Sequence[Any] = (),
    notify: Any = None,
    **unknown: Any,
) -> AgentOptimizer:
    """Put an agent into the loop of a training run.

    Until the agent edits something, the run is byte for byte the one without OPAL.

    Args:
        optimizer: the script's optimizer, or a list of them.
        model: the model that is trained, bare or inside DDP or `torch.compile`.
        total_steps: updates in the run.
        goal: one sentence: what is trained, and what it is judged by.
        scheduler: the script's learning-rate scheduler, or a list of them; its `step()` stays in the loop.
        backend: who is asked: "keep", "manual", "playbook", or a function `(workspace, message, system) -> str`.
        backend_options: options of the backend.
        decisions: how often the agent is asked (50 where None).
        schedule: when: "front", "uniform", segments [(end fraction, count), …], or update numbers.
        max_decisions: cap that includes wake-ups (twice the scheduled ones where None).
        every: updates between checks.
        blocking: whether training waits for each answer; "auto" (experimental) decides by the answer times.
        max_lag_updates: with "auto", the predicted lateness in updates above which training waits.
        show_next_decision: tell the agent when it is asked next.
        clip_grad_norm: largest global norm of the gradients, where the loop hands its clipping over.
        prompt: "neutral", "aggressive", or the path of a template.
        task_facts, epochs, train_size, batch_size, same_order_each_epoch: facts stated to the agent.
        share_code: copy the script and the model's source for the agent; or patterns of file names to leave out.
        activations: names of modules whose outputs the analysis may read.
        trial_steps: updates on trial of a new updater.
        snapshot_limit_gb: largest copy of parameters, gradients and state that is kept for an exact undo, in GB.
        pause_on_nonfinite: wait for the agent once when the loss turns non-finite.
        run_dir: the run folder.
        max_cost_usd, max_wait_hours, bounds, validation, validation_size, eval_integrity, eval_integrity_threshold,
            gate, preflight, step_timeout, boundary, approve, sync_every, rank_check_every, program, summarize,
            trackers, notify: not built yet; their defaults are accepted.

    Returns:
        An optimizer to use in place of the one that was given: `step(loss=loss)`, and `close()` at the end.

    Raises:
        ArgumentValueError, ArgumentTypeError: naming the argument, the value, and what is allowed.
        NotBuiltError: for what this version does not have.
        RunFolderError: the run folder cannot be made.
        InstallationError: torch is missing or too old.
    """
    arguments = dict(locals())
    known = list(inspect.signature(wrap).parameters)[:-1]
    refuse_unknown(unknown, known)
    config = parse(arguments)
    script = Script(optimizers=check_optimizers(optimizer), schedulers=check_schedulers(scheduler), model=_model(model))
    return assemble(script, config, select_backend(config.agent.backend), select_coordinator())


def replay(*arguments: Any, **options: Any) -> NoReturn:
    """Run without an agent what a recorded run did. Not built yet."""
    raise NotBuiltError("opal.replay", "load the program of the run's programs/FINAL by hand")


def final_program(*arguments: Any, **options: Any) -> NoReturn:
    """The path of a recorded run's final program. Not built yet."""
    raise NotBuiltError("opal.final_program", "read the run folder's programs/FINAL")


def _model(model: Any) -> Any:
    import torch

    if not isinstance(model, torch.nn.Module):
        raise ArgumentTypeError("model", model, "a torch.nn.Module")
    return model
