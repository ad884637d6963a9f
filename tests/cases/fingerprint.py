"""The bytes of tensors and states, so that two runs can be called the same or not."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import torch


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The values of a tensor as bytes, also of a sparse, complex or half-precision one."""
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def sha256(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Where two states differ: types, lengths, keys, bytes of tensors, values of everything else."""
    if type(one) is not type(other):
        return [f"{place}: {type(one).__name__} and {type(other).__name__}"]
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape and tensor_bytes(one) == tensor_bytes(other)
        return [] if same else [f"{place}: {one} and {other}"]
    if isinstance(one, Mapping):
        if set(one) != set(other):
            return [f"{place}: keys {list(one)} and {list(other)}"]
        return [line for key in one for line in differences(one[key], other[key], f"{place}[{key!r}]")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [f"{place}: {len(one)} and {len(other)} items"]
        pairs = enumerate(zip(one, other, strict=True))
        return [line for index, (a, b) in pairs for line in differences(a, b, f"{place}[{index}]")]
    same = one == other or (isinstance(one, float) and repr(one) == repr(other))
    return [] if same else [f"{place}: {one!r} and {other!r}"]


def random_states() -> dict[str, str]:
    """SHA-256 of the states of the generators of torch, Python and NumPy."""
    kind, keys, *rest = numpy.random.get_state()
    states = {
        "torch": torch.get_rng_state().tolist(),
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
    }
    return {name: hashlib.sha256(repr(state).encode()).hexdigest() for name, state in states.items()}


def seed_everything(seed: int = 0) -> None:
    """Seed the generators of torch, Python and NumPy."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
