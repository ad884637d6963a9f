"""A byte-level GPT of 0.87 M parameters on the sources of Python's standard library. About a minute on a CPU.

python examples/byte_gpt.py                          plain PyTorch
python examples/byte_gpt.py --opal --backend keep    wrapped, nothing is changed: the same parameters
python examples/byte_gpt.py --opal                   the playbook changes the optimizer while the model trains
"""

from __future__ import annotations

import sysconfig
import time
from pathlib import Path

import torch
from example_options import example_parser, wrap_arguments
from example_result import finish
from torch import nn
from torch.nn import functional

import opal

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 128, 128, 4, 4, 8


class Block(nn.Module):
    """One layer: attention, then a feed-forward part, each added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.expand = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.contract = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.norm_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        mixed = functional.scaled_dot_product_attention(*heads.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.contract(functional.gelu(self.expand(self.norm_feed_forward(x))))


class ByteGPT(nn.Module):
    """Predicts the next byte: (batch, length) bytes to (batch, length, 256) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.byte_embedding = nn.Embedding(256, WIDTH)
        self.position_embedding = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm_final = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 256, bias=False)

    def forward(self, inputs):
        x = self.byte_embedding(inputs) + self.position_embedding.weight[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm_final(x))


def load_text():
    """(train, held out) as bytes: the standard library without tests, the last 5 % of its files held out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    files = sorted(path for path in root.rglob("*.py") if left_out.isdisjoint(path.relative_to(root).parts))
    split = round(len(files) * 0.95)
    parts = (b"".join(path.read_bytes() for path in part) for part in (files[:split], files[split:]))
    return tuple(torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in parts)


def losses(model, windows, reduction="mean"):
    """Cross-entropy in nats per byte of windows (batch, CONTEXT + 1)."""
    logits = model(windows[:, :-1])
    return functional.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction=reduction)


def main() -> None:
    options = example_parser(__doc__.splitlines()[0], updates=400, every=10, decisions=8).parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    train, held_out = load_text()
    offsets = torch.arange(CONTEXT + 1)

    model = ByteGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.updates)
    if options.opal:
        optimizer = opal.wrap(
            optimizer,
            model,
            scheduler=scheduler,
            goal="a byte-level GPT on Python sources; judged by its loss in nats per byte on held-out files at the end",
            batch_size=BATCH,
            **wrap_arguments(options),
        )

    batches = torch.Generator().manual_seed(options.seed)
    begin = time.perf_counter()
    for update in range(1, options.updates + 1):
        starts = torch.randint(len(train) - CONTEXT, (BATCH, 1), generator=batches)
        loss = losses(model, train[starts + offsets].long())
        loss.backward()
        if options.opal:
            optimizer.step(loss=loss)
        else:
            optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        if update % 50 == 0:
            print(f"update {update} of {options.updates}: training loss {loss.item():.3f}", flush=True)
    seconds = time.perf_counter() - begin

    # 512 windows, evenly spread over the held-out files and the same in every run.
    starts = torch.linspace(0, len(held_out) - CONTEXT - 1, 512, dtype=torch.float64).long()
    with torch.no_grad():
        parts = (held_out[starts[:, None] + offsets].long()).split(32)
        each = torch.cat([losses(model, part, reduction="none").mean(dim=1) for part in parts])
    finish(
        options,
        model,
        optimizer,
        metric="validation loss (nats per byte)",
        value=each.mean().item(),
        standard_error=each.std().item() / len(each) ** 0.5,
        direction="lower",
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
