"""Runs for the page, written as the records are."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from opal.records.events import CheckRecord, Event
from opal.records.run_folder import RunFolder
from opal.records.strict_json import encode
from opal.types import Metric, Report

START = 1_800_000_000.0


class RunBuilder:
    """Writes a run folder file by file. An event's time is its update in seconds after the start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = RunFolder(root)
        root.mkdir(parents=True, exist_ok=True)
        self.info()

    def info(self, **fields: Any) -> None:
        """Write `run.json`; by default of a run that ended after 400 updates."""
        known = {
            "format": 1,
            "run_id": "run-1",
            "goal": "least validation loss",
            "command": ["python", "train.py"],
            "started": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(START)),
            "ended": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(START + 500)),
            "outcome": "finished",
            "total_steps": 400,
            "options": {"every": 50, "model": None},
            "versions": {"opal": "1.0", "torch": "2.13.0"},
        }
        self.folder.run_json.write_bytes(encode({**known, **fields}))

    def events(self, *events: Event) -> None:
        """Append events."""
        self._append(self.folder.events, events)

    def losses(self, first: int, values: Iterable[float | None], **fields: Any) -> None:
        """Append what one check read."""
        taken = tuple(values)
        check = CheckRecord(update=first + len(taken) - 1, first=first, values=taken, **fields)
        self._append(self.folder.losses, [check])

    def report(self, update: int, values: Mapping[str, Any]) -> None:
        """Append a report of the analysis."""
        self._append(self.folder.reports, [Report(update=update, values=values)])

    def metric(self, update: int, name: str, value: float, **fields: Any) -> None:
        """Append a logged or development value."""
        metric = Metric(update=update, name=name, value=value, **{"shown": True, **fields})
        self._append(self.folder.metrics, [metric])

    def program(self, version: str, files: Mapping[str, str]) -> None:
        """Write a version."""
        self._files(self.folder.program(version), files)

    def rejected(self, decision: int, files: Mapping[str, str]) -> None:
        """Write a refused candidate."""
        self._files(self.folder.decision(decision) / "rejected", files)

    def message(self, decision: int, text: str) -> None:
        """Write what the agent was told."""
        self._files(self.folder.decision(decision), {"message.txt": text})

    def _files(self, folder: Path, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def _append(self, path: Path, items: Iterable[Any]) -> None:
        with path.open("ab") as file:
            for item in items:
                file.write(encode(item) + b"\n")


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    """A run that ended, with nothing in it."""
    return RunBuilder(tmp_path / "run")
