"""One training of the demo's model, plain or with an agent in the loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR

import opal
from opal.demo.data import Text, training_batches, validation_windows
from opal.demo.model import ByteGPT, next_byte_loss

GOAL = "a byte-level GPT on Python sources; judged by its loss in nats per byte on held-out files at the end"

# The best of five for plain AdamW with cosine decay (5e-4, 1e-3, 2e-3, 4e-3, 1e-2), so that the comparison is fair.
LEARNING_RATE = 1e-3

Progress = Callable[[int, float], None]
"""Told after each update: how many are done, and the training loss as last read (`nan` before the first reading)."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained. Sizes count bytes (context), windows (batch size, validation) and updates (loss readings)."""

    seed: int = 0
    layers: int = 4
    width: int = 128
    context: int = 128
    batch_size: int = 8
    validation_windows: int = 512
    read_loss_every: int = 10


def describe_task(task: Task, updates: int) -> str:
    """One line: which model, how long, with what."""
    parameters = sum(parameter.numel() for parameter in new_model(task).parameters())
    return (
        f"A byte-level GPT of {parameters / 1e6:.2f} M parameters, {updates} updates of "
        f"{task.batch_size} x {task.context} bytes, seed {task.seed}; AdamW at {LEARNING_RATE:g} with cosine decay."
    )


@dataclass(frozen=True, kw_only=True)
class AgentSetup:
    """Who changes the optimizer, and how often it is asked. `run_dir` is where the run is recorded."""

    backend: str
    decisions: int
    every: int
    run_dir: str | None = None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """How a training ended. `seconds` is wall time: making the optimizer, updates and the agent; not validation."""

    updates: int
    seconds: float
    wait_seconds: float
    window_losses: Tensor
    """Loss of each validation window in nats per byte, 1-d float64."""
    run_dir: Path | None = None
    cost_usd: float | None = None

    @property
    def validation_loss(self) -> float:
        """Mean over the validation windows, nats per byte."""
        return float(self.window_losses.mean())


def new_model(task: Task) -> ByteGPT:
    """The model with the initial weights of the task's seed; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        return ByteGPT(layers=task.layers, width=task.width, context=task.context)


def train_plain(text: Text, task: Task, updates: int, progress: Progress) -> Trained:
    """Train a new model with AdamW and cosine decay."""
    model = new_model(task)
    begin = time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    scheduler = CosineAnnealingLR(optimizer, T_max=updates)
    _loop(model, text, task, updates, progress, optimizer, scheduler, lambda _: optimizer.step())
    seconds = time.perf_counter() - begin
    return Trained(updates=updates, seconds=seconds, wait_seconds=0.0, window_losses=validate(model, text, task))


def train_with_agent(text: Text, task: Task, updates: int, progress: Progress, agent: AgentSetup) -> Trained:
    """Train a new model, beginning with the same AdamW and cosine decay, which the agent may rewrite.

    Equal tasks give the initial weights and the batches of `train_plain`.
    """
    model = new_model(task)
    begin = time.perf_counter()
    inner = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    scheduler = CosineAnnealingLR(inner, T_max=updates)
    optimizer = opal.wrap(
        inner,
        model,
        scheduler=scheduler,
        total_steps=updates,
        goal=GOAL,
        backend=agent.backend,
        decisions=agent.decisions,
        every=agent.every,
        batch_size=task.batch_size,
        run_dir=agent.run_dir,
    )
    try:
        _loop(model, text, task, updates, progress, optimizer, scheduler, lambda loss: optimizer.step(loss=loss))
        seconds = time.perf_counter() - begin
        window_losses = validate(model, text, task)
        optimizer.report_dev(loss=float(window_losses.mean()))
    finally:
        optimizer.close()
    return Trained(
        updates=updates,
        seconds=seconds,
        wait_seconds=optimizer.agent_wait_seconds,
        window_losses=window_losses,
        run_dir=Path(optimizer.run_dir),
        cost_usd=optimizer.cost_usd,
    )


def validate(model: nn.Module, text: Text, task: Task) -> Tensor:
    """The loss of each validation window in nats per byte, (validation_windows,) float64. The model is not changed."""
    windows = validation_windows(text.held_out, context=task.context, count=task.validation_windows)
    losses = []
    with torch.no_grad():
        for part in windows.split(32):
            logits = model(part[:, :-1])
            each = nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none")
            losses.append(each.view(len(part), -1).double().mean(dim=1))
    return torch.cat(losses)


def _loop(
    model: nn.Module,
    text: Text,
    task: Task,
    updates: int,
    progress: Progress,
    optimizer: torch.optim.Optimizer,
    scheduler: CosineAnnealingLR,
    step: Callable[[Tensor], object],
) -> None:
    """The training loop, the same for both; only `step` knows whether an agent is there."""
    shown = math.nan
    batches = training_batches(text.train, context=task.context, batch_size=task.batch_size, seed=task.seed)
    for update, (inputs, targets) in zip(range(1, updates + 1), batches, strict=False):
        loss = next_byte_loss(model, inputs, targets)
        loss.backward()
        step(loss)
        optimizer.zero_grad()
        scheduler.step()
        if update % task.read_loss_every == 0:
            shown = loss.item()
        progress(update, shown)
