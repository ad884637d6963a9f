"""The text that the demo trains on: the sources of Python's standard library, as bytes."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from opal.errors import InstallationError

HELD_OUT_SHARE = 0.05

# Tests are repetitive, and other people's packages differ from machine to machine.
LEFT_OUT = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"})


@dataclass(frozen=True, kw_only=True)
class Text:
    """The text, split by files. Both parts are 1-d uint8 tensors of bytes."""

    train: Tensor
    held_out: Tensor
    train_files: tuple[str, ...]
    held_out_files: tuple[str, ...]
    source: str

    def describe(self) -> str:
        """One line: which text, how much of it, how it is split."""
        return (
            f"{self.source}: {len(self.train) / 1e6:.1f} MB in {len(self.train_files)} files to train on, "
            f"{len(self.held_out) / 1e6:.2f} MB in {len(self.held_out_files)} files held out"
        )


def source_files(root: Path) -> list[Path]:
    """The `.py` files below a folder in a fixed order, without tests and installed packages."""
    found = ((path.relative_to(root), path) for path in root.rglob("*.py"))
    return [path for relative, path in sorted(found) if LEFT_OUT.isdisjoint(relative.parts)]


def load_text(root: Path | None = None) -> Text:
    """Read the text. The last 5 % of the files, in the order of their paths, are held out.

    Raises:
        InstallationError: this Python has no sources of its standard library (some packagers leave only bytecode).
    """
    folder = root if root is not None else Path(sysconfig.get_paths()["stdlib"])
    files = source_files(folder)
    if len(files) < 20:
        raise InstallationError(
            f"{folder} holds {len(files)} source files, the demo needs at least 20: "
            "use a Python that comes with the sources of its standard library"
        )
    first_held_out = len(files) - max(1, round(len(files) * HELD_OUT_SHARE))
    train, held_out = files[:first_held_out], files[first_held_out:]
    return Text(
        train=_read(train),
        held_out=_read(held_out),
        train_files=_names(train, folder),
        held_out_files=_names(held_out, folder),
        source=f"standard library of Python {platform.python_version()}",
    )


def training_batches(text: Tensor, *, context: int, batch_size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless random windows: inputs and targets, each (batch_size, context) int64. The seed fixes every batch."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(context + 1)
    while True:
        starts = torch.randint(len(text) - context, (batch_size, 1), generator=generator)
        windows = text[starts + offsets].long()
        yield windows[:, :-1], windows[:, 1:]


def validation_windows(text: Tensor, *, context: int, count: int) -> Tensor:
    """The same `count` windows for every run, evenly spread over the text: (count, context + 1) int64."""
    starts = torch.linspace(0, len(text) - context - 1, count, dtype=torch.float64).long()
    return text[starts[:, None] + torch.arange(context + 1)].long()


def _read(files: Sequence[Path]) -> Tensor:
    joined = b"".join(path.read_bytes() for path in files)
    return torch.frombuffer(bytearray(joined), dtype=torch.uint8)


def _names(files: Sequence[Path], root: Path) -> tuple[str, ...]:
    return tuple(path.relative_to(root).as_posix() for path in files)
