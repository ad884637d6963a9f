"""A small GPT over bytes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 256


class Attention(nn.Module):
    """Causal self-attention with several heads: (batch, time, width) to the same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position with those before it."""
        batch, time, width = x.shape
        query, key, value = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return result


class Block(nn.Module):
    """Attention, then a feed-forward layer, each on a normalised input and added to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_feed_forward = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width, bias=False)
        self.contract = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) to the same shape."""
        x = x + self.attention(self.norm_attention(x))
        result: Tensor = x + self.contract(functional.gelu(self.expand(self.norm_feed_forward(x))))
        return result


class ByteGPT(nn.Module):
    """A GPT that predicts the next byte; 0.87 M parameters with the defaults."""

    def __init__(self, *, layers: int = 4, width: int = 128, heads: int = 4, context: int = 128) -> None:
        super().__init__()
        self.context = context
        self.byte_embedding = nn.Embedding(VOCABULARY, width)
        self.position_embedding = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm_final = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (batch, time, 256) for the byte after each position of `inputs` (batch, time), time ≤ context."""
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.byte_embedding(inputs) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm_final(x))
        return logits


def next_byte_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats per byte, 0-d."""
    logits = model(inputs)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
