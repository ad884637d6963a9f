"""`run.json`: what the run is."""

from __future__ import annotations

import dataclasses
import os
import platform
import socket
import sys
from datetime import datetime, timezone
from typing import Any

from opal._version import __version__
from opal.config import RunConfig
from opal.records.run_folder import RunFolder
from opal.records.writer import RecordWriter
from opal.types import RunFacts

FORMAT = 1


class RunRecord:
    """Writes `run.json` at the start and again at the end."""

    def __init__(self, folder: RunFolder, writer: RecordWriter, config: RunConfig, facts: RunFacts) -> None:
        self._folder = folder
        self._writer = writer
        self._content: dict[str, Any] = {
            "format": FORMAT,
            "run_id": folder.root.name,
            "goal": config.task.goal,
            "command": [sys.executable, *sys.argv],
            "started": _now(),
            "ended": None,
            "outcome": None,
            "total_steps": config.task.total_steps,
            "options": options_of(config),
            "inactive": list(config.inactive),
            "versions": {"opal": __version__, "python": facts.python_version, "torch": facts.torch_version},
            "hardware": facts.hardware,
            "model": {
                "name": facts.model.name,
                "parameters": sum(parameter.count for parameter in facts.parameters),
                "tensors": len(facts.parameters),
            },
            "optimizers": [optimizer.name for optimizer in facts.optimizers],
            "schedulers": [scheduler.name for scheduler in facts.schedulers],
            "world_size": facts.world_size,
            "platform": platform.platform(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }

    def started(self, *, checkout: str | None, changed: tuple[str, ...], decision_updates: tuple[int, ...]) -> None:
        """Write it for the first time; `changed` are files that differ from the installation's record."""
        self._content |= {
            "checkout": checkout,
            "installation": list(changed),
            "decision_updates": list(decision_updates),
        }
        self._write()

    def ended(self, *, outcome: str, updates: int, final_version: str, agent_wait_seconds: float) -> None:
        """Write it for the last time."""
        self._content |= {
            "ended": _now(),
            "outcome": outcome,
            "updates": updates,
            "final_version": final_version,
            "agent_wait_seconds": agent_wait_seconds,
        }
        self._write()

    def _write(self) -> None:
        self._writer.json(self._folder.run_json, dict(self._content))


def options_of(config: RunConfig) -> dict[str, Any]:
    """The arguments of `wrap` as they hold for this run; what is no plain value by its name."""
    groups = (getattr(config, field.name) for field in dataclasses.fields(config) if field.name != "inactive")
    values = {field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)}
    return {name: _plain(value) for name, value in values.items() if name not in ("goal", "total_steps")}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    name = getattr(value, "__qualname__", None) or type(value).__name__
    return f"<{name}>"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
