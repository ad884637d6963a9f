"""Settings of torch that hold for the whole process, as context managers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch


@contextmanager
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


SETTINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "double precision by default": _double,
    "deterministic algorithms": _deterministic,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "invariants of sparse tensors checked": lambda: torch.sparse.check_sparse_tensor_invariants(True),
}
