"""Chooses the backend; the only list of those that exist."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from opal.backends.base import Backend
from opal.errors import ArgumentTypeError, ArgumentValueError, NotBuiltError

_BUILT = {
    "keep": ("opal.backends.keep", "KeepBackend"),
    "manual": ("opal.backends.manual", "ManualBackend"),
    "playbook": ("opal.backends.playbook", "PlaybookBackend"),
}
_NOT_BUILT = ("claude", "codex", "acp:<command>", "api:<provider>:<model>", "mailbox:<folder>")
_METHODS = ("setup", "decide", "cancel", "close", "save", "restore")


def select_backend(backend: Any) -> Backend:
    """The backend for the argument of `wrap`: a name, an instance, a function, or an entry point's name.

    Raises:
        NotBuiltError: a documented backend that this version does not have.
        ArgumentValueError, ArgumentTypeError: there is no such backend; the text lists those that exist.
    """
    if isinstance(backend, str):
        return _by_name(backend)
    is_backend = all(callable(getattr(backend, method, None)) for method in _METHODS)
    if is_backend and isinstance(backend, type):
        raise ArgumentTypeError("backend", backend, "it is a class; give an instance of it")
    if is_backend:
        return backend  # type: ignore[no-any-return]
    if callable(backend):
        from opal.backends.function import FunctionBackend

        return FunctionBackend(backend)
    raise ArgumentTypeError("backend", backend, "a name, a function (workspace, message, system) -> str, or a backend")


def _by_name(name: str) -> Backend:
    if name in _BUILT:
        module, kind = _BUILT[name]
        made: Backend = getattr(importlib.import_module(module), kind)()
        return made
    if any(name == known.split(":")[0] or name.startswith(known.split("<")[0]) for known in _NOT_BUILT):
        raise NotBuiltError(
            f"backend={name!r}", f"choose {', '.join(repr(known) for known in _BUILT)}, or give a function"
        )
    found = {point.name: point for point in entry_points(group="opal.backends")}
    if name in found:
        return found[name].load()()  # type: ignore[no-any-return]
    known = [*_BUILT, *_NOT_BUILT, *found, "a function (workspace, message, system) -> str"]
    raise ArgumentValueError("backend", name, f"known are {', '.join(known)}")
