"""OPAL: the optimizer of a live training run as a small program that a coding agent rewrites while the model trains.

The names below load when they are first used, so that `import opal` does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opal._version import __version__

if TYPE_CHECKING:
    from opal.api import final_program, replay, wrap
    from opal.engine.agent_optimizer import AgentOptimizer

__all__ = ["AgentOptimizer", "__version__", "final_program", "replay", "wrap"]


def __getattr__(name: str) -> Any:
    if name in ("wrap", "replay", "final_program", "AgentOptimizer"):
        from opal import api

        return getattr(api, name)
    raise AttributeError(f"module 'opal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
