"""Losses: kept where they are at every update, read at checks."""

from __future__ import annotations

import torch
from torch import Tensor

from opal.errors import ArgumentTypeError, ArgumentValueError

_ALLOWED = "a number, or a tensor with one element"


class LossRing:
    """The losses since the last check, one per update, None where none was given.

    A loss on a CPU is read at once, since that waits for nothing. One on another device is copied into a buffer there
    and read at the check. Either way the value counts that the tensor has now, whatever is done to it later.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: list[float | None] = []
        self._buffer: Tensor | None = None
        self._slots: list[Tensor] = []
        self._on_device: list[int] = []
        self._first = 1
        self._stopped = False

    @property
    def first(self) -> int:
        """The update that the first loss belongs to."""
        return self._first

    def put(self, update: int, loss: float | Tensor | None) -> None:
        """Keep the loss of `update`, the one after the last, or the last once more where its step has raised.

        Raises:
            ArgumentTypeError, ArgumentValueError: it is neither a number nor a tensor with one element.
        """
        if len(self._values) != update - self._first:
            self._go_back(update)
        if loss is None:
            self._values.append(None)
        elif isinstance(loss, Tensor):
            if loss.is_cpu:
                self._values.append(_read(loss))
            else:
                self._put_on_device(loss)
        else:
            self._values.append(_number(loss))

    def _go_back(self, update: int) -> None:
        """Keep what comes before `update`; nothing, when nobody reads it any more."""
        self._first = min(self._first, update)  # a check may have taken the loss of the step that raised
        del self._values[0 if self._stopped else update - self._first :]
        self._on_device = [slot for slot in self._on_device if slot < len(self._values)]

    def take(self, update: int) -> list[float | None]:
        """The losses up to `update`; what comes belongs to the updates after it."""
        if self._stopped:
            return []
        self._read_device()
        losses, self._values = self._values[: update - self._first + 1], []
        self._first = update + 1
        return losses

    def stop(self) -> None:
        """Keep nothing any more: nobody reads it."""
        self._stopped = True
        self._first = 0  # no update is the next one: each loss replaces the one before

    def _put_on_device(self, loss: Tensor) -> None:
        if loss.numel() != 1:
            raise ArgumentValueError("loss", f"a tensor of shape {tuple(loss.shape)}", _ALLOWED)
        slot = len(self._values)
        if self._buffer is None or self._buffer.device != loss.device or slot >= len(self._slots):
            self._read_device()
            size = max(self._capacity, 2 * slot)
            self._buffer = torch.zeros(size, dtype=torch.float32, device=loss.device)
            self._slots = list(self._buffer.unbind())
        self._slots[slot].copy_(loss.detach().reshape(()), non_blocking=True)
        self._on_device.append(slot)
        self._values.append(None)

    def _read_device(self) -> None:
        """Put the values that lie on the device where they belong; waits for it once."""
        if self._on_device and self._buffer is not None:
            values = self._buffer.tolist()
            for slot in self._on_device:
                self._values[slot] = values[slot]
            self._on_device.clear()


def _read(loss: Tensor) -> float:
    try:
        return float(loss.item())
    except (RuntimeError, TypeError) as error:
        raise ArgumentValueError("loss", f"a {loss.dtype} tensor of shape {tuple(loss.shape)}", _ALLOWED) from error


def _number(loss: object) -> float:
    if isinstance(loss, str | bytes) or not hasattr(loss, "__float__"):
        raise ArgumentTypeError("loss", loss, _ALLOWED)
    try:
        return float(loss)
    except (TypeError, ValueError) as error:
        raise ArgumentValueError("loss", loss, _ALLOWED) from error
