"""Losses: kept where they are at every update, read at checks."""

from __future__ import annotations

import torch

from opal.errors import ArgumentTypeError, ArgumentValueError

_ALLOWED = "a number, or a tensor with one element"


class LossRing:
    """The losses since the last check, one slot per update.

    A loss on a CPU is read at once, since that waits for nothing. One on another device is copied into a buffer there
    and read at the check. Either way the value counts that the tensor has now, whatever is done to it later.
    """

    def __init__(self, capacity: int) -> None:
        self._host: list[float | None] = [None] * capacity
        self._slots: list[torch.Tensor] = []
        self._buffer: torch.Tensor | None = None
        self._on_device: list[int] = []
        self._first = 1

    @property
    def first(self) -> int:
        """The update that the first slot belongs to."""
        return self._first

    def put(self, update: int, loss: float | torch.Tensor) -> None:
        """Keep the loss of `update`.

        Raises:
            ArgumentTypeError, ArgumentValueError: it is neither a number nor a tensor with one element.
        """
        slot = (update - self._first) % len(self._host)
        if isinstance(loss, torch.Tensor):
            if loss.is_cpu and loss.numel() == 1:
                self._host[slot] = loss.item()
            else:
                self._put_on_device(slot, loss)
        else:
            self._host[slot] = _number(loss)

    def take(self, update: int) -> list[float | None]:
        """The losses up to `update`, None where none was given; the ring begins anew after it."""
        count = min(update - self._first + 1, len(self._host))
        if self._on_device and self._buffer is not None:
            values = self._buffer.tolist()
            for slot in self._on_device:
                self._host[slot] = values[slot]
            self._on_device.clear()
        losses = self._host[:count]
        self._host[:count] = [None] * count
        self._first = update + 1
        return losses

    def _put_on_device(self, slot: int, loss: torch.Tensor) -> None:
        if loss.numel() != 1:
            raise ArgumentValueError("loss", f"a tensor of shape {tuple(loss.shape)}", _ALLOWED)
        if self._buffer is None or self._buffer.device != loss.device:
            pending = [] if self._buffer is None else self._buffer.tolist()
            for old in self._on_device:
                self._host[old] = pending[old]
            self._on_device.clear()
            self._buffer = torch.zeros(len(self._host), dtype=torch.float32, device=loss.device)
            self._slots = list(self._buffer.unbind())
        self._slots[slot].copy_(loss.detach().reshape(()), non_blocking=True)
        self._on_device.append(slot)


def _number(loss: object) -> float:
    if isinstance(loss, str | bytes) or not hasattr(loss, "__float__"):
        raise ArgumentTypeError("loss", loss, _ALLOWED)
    try:
        return float(loss)
    except (TypeError, ValueError) as error:
        raise ArgumentValueError("loss", loss, _ALLOWED) from error
