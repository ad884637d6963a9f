"""Outputs of named modules for the analysis, kept only of the forward passes right before it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opal.engine.user_optimizers import clean_name
from opal.errors import ArgumentValueError


class ActivationTap:
    """Forward hooks that keep a module's last output while armed. Unarmed they cost one comparison."""

    def __init__(self, model: torch.nn.Module, names: Sequence[str]) -> None:
        modules = {clean_name(name): module for name, module in model.named_modules()}
        missing = [name for name in names if name not in modules]
        if missing:
            some = ", ".join(name for name in list(modules)[1:13])
            raise ArgumentValueError(
                "activations", missing[0], f"the model has no module of this name; it has {some} …"
            )
        self._armed = False
        self._kept: dict[str, Any] = {}
        self._handles = [modules[name].register_forward_hook(self._hook(name)) for name in names]

    def arm(self) -> None:
        """Keep the outputs from now on; nothing to do where no module was named."""
        self._armed = bool(self._handles)

    def take(self) -> dict[str, Any]:
        """What was kept, by module name; nothing is kept from now on."""
        self._armed = False
        kept, self._kept = self._kept, {}
        return kept

    def close(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, name: str) -> Any:
        def keep(module: torch.nn.Module, args: Any, output: Any) -> None:
            if self._armed:
                self._kept[name] = _detached(output)

        return keep


def _detached(output: Any) -> Any:
    """The output without its graph; tuples, lists and dicts of tensors too."""
    if isinstance(output, torch.Tensor):
        return output.detach()
    if isinstance(output, dict):
        return {key: _detached(value) for key, value in output.items()}
    if isinstance(output, tuple | list):
        return [_detached(value) for value in output]
    return output
