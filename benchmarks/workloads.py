"""The models on which the cost of a wrapped update is measured, each with its optimizer and data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR


@dataclass(frozen=True)
class Workload:
    """A model, a batch, and how it is trained. `scheduler` is `None` where the rate stays constant."""

    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    scheduler: Callable[[torch.optim.Optimizer, int], LRScheduler | None]


class Layer(nn.Module):
    """A transformer layer of 18 tensors: separate projections with biases, and a gated feed-forward part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.gate, self.expand = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.contract = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        normed = self.norm_1(x)
        heads = (
            part(normed).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        normed = self.norm_2(x)
        return x + self.contract(functional.silu(self.gate(normed)) * self.expand(normed))


class GPT(nn.Module):
    """4 layers, width 128, context 64: 77 tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, 128), nn.Embedding(64, 128)
        self.layers = nn.Sequential(*(Layer(128, 4) for _ in range(4)))
        self.norm = nn.LayerNorm(128)
        self.head = nn.Linear(128, 256, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.tokens(inputs) + self.positions.weight))).transpose(1, 2)


class Residual(nn.Module):
    """Two 3 x 3 convolutions with batch norm, and what came in added to them."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = after // before
        self.conv_1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.conv_2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.norm_1(self.conv_1(x)))
        return functional.relu(self.norm_2(self.conv_2(inner)) + self.shortcut(x))


def tiny() -> nn.Module:
    """64-64-10: 4 tensors."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def mlp() -> nn.Module:
    """784-512-512-10: 6 tensors, 0.67 M parameters."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def resnet() -> nn.Module:
    """Nine residual blocks of 16, 32 and 64 channels on 32 x 32 pictures: 61 tensors, 0.27 M parameters."""
    widths = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
    blocks = [Residual(before, after) for before, after in pairwise(widths)]
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def _adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def _sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def _one_cycle(optimizer: torch.optim.Optimizer, updates: int) -> LRScheduler:
    return OneCycleLR(optimizer, max_lr=0.02, total_steps=updates)


# Batches are no larger than the tables say, and small where they say nothing: only `step()` is timed.
WORKLOADS = {
    "tiny": Workload(tiny, lambda: (torch.randn(32, 64), torch.randint(10, (32,))), _adamw, lambda _, __: None),
    "mlp": Workload(mlp, lambda: (torch.randn(128, 784), torch.randint(10, (128,))), _adamw, lambda _, __: None),
    "gpt": Workload(
        GPT, lambda: (torch.randint(256, (2, 64)), torch.randint(256, (2, 64))), _adamw, lambda _, __: None
    ),
    "resnet": Workload(resnet, lambda: (torch.randn(4, 3, 32, 32), torch.randint(10, (4,))), _sgd, _one_cycle),
}
