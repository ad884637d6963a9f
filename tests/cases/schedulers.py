"""Every scheduler of torch, built for a run of a given number of updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import SWALR

SchedulerMaker: TypeAlias = Callable[[Optimizer, int], LRScheduler]


def _chained(optimizer: Optimizer, updates: int) -> LRScheduler:
    warmup = lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=updates // 6)
    return lr_scheduler.ChainedScheduler([warmup, lr_scheduler.ExponentialLR(optimizer, gamma=0.99)])


def _sequential(optimizer: Optimizer, updates: int) -> LRScheduler:
    warmup = lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=updates // 6)
    cosine = lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates - updates // 6)
    return lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[updates // 6])


def _cyclic(optimizer: Optimizer, updates: int) -> LRScheduler:
    momentum = "momentum" in optimizer.defaults or "betas" in optimizer.defaults
    return lr_scheduler.CyclicLR(
        optimizer, base_lr=0.001, max_lr=0.02, step_size_up=updates // 8, cycle_momentum=momentum
    )


def _one_cycle(optimizer: Optimizer, updates: int) -> LRScheduler:
    momentum = "momentum" in optimizer.defaults or "betas" in optimizer.defaults
    return lr_scheduler.OneCycleLR(optimizer, max_lr=0.03, total_steps=updates + 1, cycle_momentum=momentum)


SCHEDULERS: dict[str, SchedulerMaker] = {
    "StepLR": lambda o, n: lr_scheduler.StepLR(o, step_size=n // 5, gamma=0.5),
    "MultiStepLR": lambda o, n: lr_scheduler.MultiStepLR(o, milestones=[n // 4, n // 2], gamma=0.3),
    "CosineAnnealingLR": lambda o, n: lr_scheduler.CosineAnnealingLR(o, T_max=n),
    "CosineAnnealingWarmRestarts": lambda o, n: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=n // 7, T_mult=2),
    "OneCycleLR": _one_cycle,
    "CyclicLR": _cyclic,
    "LambdaLR": lambda o, _: lr_scheduler.LambdaLR(o, lambda step: 1.0 / (1.0 + step / 10)),
    "MultiplicativeLR": lambda o, _: lr_scheduler.MultiplicativeLR(o, lambda step: 0.99 if step % 3 else 1.01),
    "PolynomialLR": lambda o, n: lr_scheduler.PolynomialLR(o, total_iters=n, power=2.0),
    "SequentialLR": _sequential,
    "ChainedScheduler": _chained,
    "ReduceLROnPlateau": lambda o, _: lr_scheduler.ReduceLROnPlateau(o, factor=0.7, patience=3, threshold=0.05),
    "ExponentialLR": lambda o, _: lr_scheduler.ExponentialLR(o, gamma=0.98),
    "LinearLR": lambda o, n: lr_scheduler.LinearLR(o, start_factor=0.1, total_iters=n // 2),
    "ConstantLR": lambda o, n: lr_scheduler.ConstantLR(o, factor=0.3, total_iters=n // 3),
    "SWALR": lambda o, n: SWALR(o, swa_lr=0.002, anneal_epochs=n // 2),
}
