"""Counts what one update of a program does: operator calls, and reads by the host that wait for the device."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_READS = frozenset({"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_unique2"})
_MAX_PLACES = 5


class UpdateAudit(TorchDispatchMode):
    """A dispatch mode that counts. On a CPU every read counts; elsewhere only reads of tensors that lie on the device.

    Kernels, their order and their results are those of the update without it.
    """

    def __init__(self, device_type: str, program_prefix: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device_type = device_type
        self._prefix = program_prefix
        self._places: Counter[str] = Counter()
        self.operator_calls = 0
        self.host_reads = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operator_calls += 1
        if func._schema.name.partition("::")[2] in _READS and self._on_device(args):
            self.host_reads += 1
            self._places[self._place()] += 1
        return func(*args, **(kwargs or {}))

    def places(self) -> tuple[str, ...]:
        """Where the reads came from (file:line in the program, or the library's file), most frequent first."""
        return tuple(f"{place} ({count}×)" for place, count in self._places.most_common(_MAX_PLACES))

    def _on_device(self, args: Any) -> bool:
        return any(isinstance(arg, torch.Tensor) and arg.device.type == self._device_type for arg in args)

    def _place(self) -> str:
        frame = sys._getframe(2)
        innermost = ""
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self._prefix):
                return f"{name.removeprefix(self._prefix)}:{frame.f_lineno}"
            if not innermost and "_python_dispatch" not in name and "_ops.py" not in name:
                innermost = f"{name.rsplit('/', 1)[-1]}:{frame.f_lineno}"
            if frame.f_back is None:
                break
            frame = frame.f_back
        return innermost
