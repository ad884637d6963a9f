"""Small models for tests of training, each with a loss that takes its data from a generator.

A model here has `loss(generator)`: the mean loss of a fresh batch, a 0-d tensor with a graph. All of them have at most
a few hundred parameters, so that an update costs a fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import nn

ModelMaker: TypeAlias = Callable[[], nn.Module]

_ROWS = 8


class Mlp(nn.Module):
    """Two layers and a norm: matrices and vectors."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(dropout)
        self.second = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.dropout(self.norm(torch.tanh(self.first(x)))))

    def loss(self, generator: torch.Generator) -> torch.Tensor:
        x, y = torch.randn(_ROWS, 6, generator=generator), torch.randn(_ROWS, 3, generator=generator)
        return loss_of(self, x, y)


class Matrices(nn.Module):
    """Matrices only, as `torch.optim.Muon` wants them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8, bias=False)
        self.second = nn.Linear(8, 3, bias=False)

    def loss(self, generator: torch.Generator) -> torch.Tensor:
        x, y = torch.randn(_ROWS, 6, generator=generator), torch.randn(_ROWS, 3, generator=generator)
        return (self.second(torch.tanh(self.first(x))) - y).square().mean()


class SparseBag(nn.Module):
    """An embedding with sparse gradients, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4, sparse=True)

    def loss(self, generator: torch.Generator) -> torch.Tensor:
        places = torch.randint(0, 20, (_ROWS, 3), generator=generator)
        return (self.table(places).sum(1) - torch.randn(_ROWS, 4, generator=generator)).square().mean()


class Tied(nn.Module):
    """An embedding whose matrix is the output layer's too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 5)
        self.inner = nn.Linear(5, 5)
        self.output = nn.Linear(5, 12, bias=False)
        self.output.weight = self.table.weight

    def loss(self, generator: torch.Generator) -> torch.Tensor:
        tokens = torch.randint(0, 12, (_ROWS, 2), generator=generator)
        return nn.functional.cross_entropy(self.output(torch.tanh(self.inner(self.table(tokens[:, 0])))), tokens[:, 1])


class Complex(nn.Module):
    """A complex matrix and a real bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4, dtype=torch.complex64) * 0.3)
        self.bias = nn.Parameter(torch.zeros(4))

    def loss(self, generator: torch.Generator) -> torch.Tensor:
        x = torch.randn(_ROWS, 6, generator=generator).to(torch.complex64)
        return ((x @ self.weight).abs() + self.bias - torch.randn(_ROWS, 4, generator=generator)).square().mean()


class Convolution(nn.Module):
    """A convolution whose weights and gradients lie in memory with channels last, batch norm, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Linear(4, 3)
        self.to(memory_format=torch.channels_last)

    def loss(self, generator: torch.Generator) -> torch.Tensor:
        x = torch.randn(_ROWS, 3, 5, 5, generator=generator).contiguous(memory_format=torch.channels_last)
        y = torch.randn(_ROWS, 3, generator=generator)
        return (self.second(torch.relu(self.norm(self.first(x))).mean((2, 3))) - y).square().mean()


class Odd(nn.Module):
    """Parameters of odd kinds: no entries, one, no gradient, frozen, transposed in memory, half precision, double."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter((torch.randn(4, 6) * 0.3).t())
        self.empty = nn.Parameter(torch.randn(0, 4))
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.unused = nn.Parameter(torch.randn(3))
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)
        self.coarse = nn.Parameter(torch.zeros(4, dtype=torch.bfloat16))
        self.fine = nn.Parameter(torch.zeros(4, dtype=torch.float64))

    def loss(self, generator: torch.Generator) -> torch.Tensor:
        x = torch.cat([torch.randn(_ROWS, 6, generator=generator) @ self.matrix, self.empty]) * self.scale
        y = torch.randn(_ROWS, 4, generator=generator)
        return (x + self.frozen + self.coarse + self.fine - y).square().mean().float()


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean squared error of a model, bare or inside a wrapper such as `DataParallel`."""
    return (model(x) - y).square().mean()


def fresh(make: ModelMaker, seed: int = 0) -> nn.Module:
    """A model with the initial values of a seed."""
    torch.manual_seed(seed)
    return make()
