"""A snapshot: a copy of parameters, gradients, optimizer and updater state, good for an exact undo.

Restoring writes into the objects that existed when the copy was made, so that whatever they are shared with is restored
as well: tensors in place, dicts and lists and attributes to the contents that they had.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from opal.programs.running import NamedParams

_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, type, ModuleType,
    FunctionType, MethodType, BuiltinFunctionType,
)  # fmt: skip


_UNSET = object()
_OPEN_MODULES = ("_opal_program_", "opal.kit", "types")  # `types`: SimpleNamespace


class Snapshot:
    """Everything that a program's `build` or first update may change, as it is now."""

    def __init__(self, named_params: NamedParams, roots: Iterable[Any]) -> None:
        self._params = [_SavedParameter(param) for _, param in named_params]
        self._walk = _Walk({id(param) for _, param in named_params})
        for root in roots:
            self._walk.save(root)
        self._random = _RandomState()

    @property
    def nbytes(self) -> int:
        """Bytes that the copies take."""
        return sum(saved.nbytes for saved in self._params) + self._walk.nbytes

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back, byte for byte."""
        for saved in self._params:
            saved.restore()
        self._walk.restore()
        self._random.restore()


def snapshot_bytes(named_params: NamedParams, optimizers: Iterable[torch.optim.Optimizer]) -> int:
    """An estimate of a snapshot's size: parameters, gradients, optimizer state."""
    total = 0
    for _, param in named_params:
        total += _nbytes(param) + (_nbytes(param.grad) if param.grad is not None else 0)
    for optimizer in optimizers:
        for state in optimizer.state.values():
            if isinstance(state, Mapping):
                total += sum(_nbytes(value) for value in state.values() if isinstance(value, torch.Tensor))
    return total


class _SavedParameter:
    """A parameter's storage, values, flag, and gradient."""

    def __init__(self, param: torch.nn.Parameter) -> None:
        self._param = param
        self._data = param.data
        self._values = param.detach().clone()
        self._requires_grad = param.requires_grad
        self._grad = param.grad
        self._grad_data = None if param.grad is None else param.grad.data
        self._grad_values = None if param.grad is None else param.grad.detach().clone()

    @property
    def nbytes(self) -> int:
        return _nbytes(self._values) + (0 if self._grad_values is None else _nbytes(self._grad_values))

    def restore(self) -> None:
        _restore_tensor(self._param, self._data, self._values)
        self._param.requires_grad_(self._requires_grad)
        if self._grad is not None and self._grad_data is not None and self._grad_values is not None:
            _restore_tensor(self._grad, self._grad_data, self._grad_values)
        if self._param.grad is not self._grad:
            self._param.grad = self._grad


class _Walk:
    """Copies of all tensors and containers that are reachable from some roots, each once."""

    def __init__(self, skip: set[int]) -> None:
        self._seen = set(skip)
        self._keep: list[Any] = []
        self._tensors: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self._containers: list[tuple[Any, Any]] = []
        self._others: list[Callable[[], Any]] = []
        self.nbytes = 0

    def save(self, root: Any) -> None:
        todo = [root]
        while todo:
            item = todo.pop()
            if isinstance(item, _ATOMS) or id(item) in self._seen:
                continue
            self._seen.add(id(item))
            self._keep.append(item)  # so that no other object gets its id
            todo += self._save_one(item)

    def _save_one(self, item: Any) -> list[Any]:
        """Copy one object; what it refers to comes next."""
        if isinstance(item, torch.Tensor):
            copy = item.detach().clone()
            self._tensors.append((item, item.data, copy))
            self.nbytes += _nbytes(copy)
            return [] if item.grad_fn is not None or item.grad is None else [item.grad]
        restore = _restore_of(item)
        if restore is not None:
            self._others.append(restore)
            return []
        if isinstance(item, tuple | frozenset):
            return list(item)
        below: list[Any] = []
        if isinstance(item, Mapping) and hasattr(item, "clear") and hasattr(item, "update"):
            self._containers.append((item, dict(item)))
            below += [*item.keys(), *item.values()]
        elif isinstance(item, list | set | deque):
            self._containers.append((item, list(item)))
            below += list(item)
        if not _is_open(item):
            return below
        attributes = getattr(item, "__dict__", None)
        if isinstance(attributes, dict):
            self._containers.append((attributes, dict(attributes)))
            below += attributes.values()
        for name in _slots(type(item)):
            content = getattr(item, name, _UNSET)
            self._containers.append(((item, name), content))
            if content is not _UNSET:
                below.append(content)
        return below

    def restore(self) -> None:
        for container, content in self._containers:
            _refill(container, content)
        for tensor, data, values in self._tensors:
            _restore_tensor(tensor, data, values)
        for restore in self._others:
            restore()


def _restore_tensor(tensor: torch.Tensor, data: torch.Tensor, values: torch.Tensor) -> None:
    """Give a tensor the storage, shape and values back that it had; `data` shares its storage of then."""
    if tensor.layout is not torch.strided or data.layout is not torch.strided:
        tensor.data = values.clone()
        return
    if data.untyped_storage().nbytes() < _nbytes(data):  # resized in place
        tensor.data = values.clone()
        return
    where = ("data_ptr", "storage_offset", "stride")
    same = tensor.shape == data.shape and tensor.dtype == data.dtype and tensor.device == data.device
    if not same or any(getattr(tensor, name)() != getattr(data, name)() for name in where):
        tensor.data = data
    tensor.detach().copy_(values)


def _restore_of(item: Any) -> Callable[[], Any] | None:
    """What puts back an object with a state of its own kind: generators, arrays, buffers; None for other objects."""
    if isinstance(item, torch.Generator):
        return partial(item.set_state, item.get_state())
    if isinstance(item, random.Random):
        return partial(item.setstate, item.getstate())
    if isinstance(item, bytearray):
        return partial(item.__setitem__, slice(None), bytes(item))
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(item, numpy.ndarray):
        return partial(numpy.copyto, item, item.copy()) if item.flags.writeable else None
    if isinstance(item, numpy.random.Generator):
        return partial(setattr, item.bit_generator, "state", item.bit_generator.state)
    if isinstance(item, numpy.random.RandomState):
        return partial(item.set_state, item.get_state())
    return None


def _refill(container: Any, content: Any) -> None:
    if isinstance(container, tuple):
        if content is not _UNSET:
            setattr(container[0], container[1], content)
        elif hasattr(container[0], container[1]):
            delattr(container[0], container[1])
    elif isinstance(container, Mapping):
        container.clear()  # type: ignore[attr-defined]
        container.update(content)  # type: ignore[attr-defined]
    elif isinstance(container, list):
        container[:] = content
    else:
        container.clear()
        (container.update if isinstance(container, set) else container.extend)(content)


class _RandomState:
    """Random number generators of Python, NumPy and torch."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state() if numpy is not None else None

    def restore(self) -> None:
        random.setstate(self._python)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def _is_open(item: Any) -> bool:
    """Whether an object's attributes belong to the update: a program's own, the kit's, optimizers, schedulers, modules.

    Others (loggers, files, locks, the script's own objects) are not looked into.
    """
    if isinstance(item, torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler | torch.nn.Module):
        return True
    return type(item).__module__.startswith(_OPEN_MODULES)


def _slots(kind: type) -> list[str]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        private = f"_{base.__name__.lstrip('_')}"
        for name in [slots] if isinstance(slots, str) else list(slots):
            names.append(f"{private}{name}" if name.startswith("__") and not name.endswith("__") else name)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _nbytes(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided:
        return tensor._nnz() * tensor.element_size() if tensor.is_sparse else 0
    return tensor.numel() * tensor.element_size()
