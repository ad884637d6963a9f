"""The command line in this process, and run folders of every kind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from opal.cli.main import run
from opal.records import events as e
from opal.records.run_folder import RunFolder
from opal.records.strict_json import encode


class Printed(NamedTuple):
    """What a command printed, and its exit status."""

    code: int
    out: str
    err: str


@pytest.fixture
def opal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Printed]:
    """Run `opal ARGUMENTS`."""

    def call(*arguments: object) -> Printed:
        monkeypatch.setattr(sys, "argv", ["opal", *map(str, arguments)])
        code = 0
        capsys.readouterr()
        try:
            run()
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        return Printed(code, *capsys.readouterr())

    return call


@pytest.fixture
def dead_pid() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    return process.pid


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunFolder]:
    """A run folder with these events; its process is this one unless something else is said."""

    def make(*events: e.AnyEvent, name: str = "sample", **info: Any) -> RunFolder:
        folder = RunFolder(tmp_path / "opal_runs" / name)
        folder.root.mkdir(parents=True)
        known = {
            "format": 1,
            "run_id": name,
            "started": "2026-12-01T10:00:00+00:00",
            "total_steps": 400,
            "goal": "a low loss",
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }
        folder.run_json.write_text(json.dumps({**known, **info}))
        folder.events.write_bytes(b"".join(encode(event) + b"\n" for event in events))
        return folder

    return make


@pytest.fixture
def bad_folders(tmp_path: Path) -> dict[str, Path]:
    """Folders that are no run, by what is wrong with them."""
    empty, foreign, damaged = tmp_path / "empty", tmp_path / "foreign", tmp_path / "damaged"
    for folder in (empty, foreign, damaged):
        folder.mkdir()
    (foreign / "run.json").write_text('{"name": "something else"}')
    (damaged / "run.json").write_text('{"format": 1, "run_')
    return {"empty": empty, "foreign": foreign, "damaged": damaged, "missing": tmp_path / "missing"}


def started(backend: str = "manual") -> e.RunStarted:
    return e.RunStarted(time=0.0, update=0, total_steps=400, decision_updates=(10, 40), dropped=1, backend=backend)


@pytest.fixture
def story() -> list[e.AnyEvent]:
    """A run with an applied, a kept, a refused and a reverted decision, and its end."""
    events: list[e.AnyEvent] = [started("playbook")]
    for number in (1, 2, 3, 4):
        update = 10 * number
        events.append(
            e.DecisionAsked(time=1.0, update=update, decision=number, reasons=("scheduled",), waits=True),
        )
        events.append(
            e.DecisionAnswered(
                time=2.0,
                update=update,
                decision=number,
                asked_at=update,
                seconds=12.0 * number,
                edited=number != 2,
                text=f"rationale {number}\n\x1b[31mred\x1b[0m" + " and more" * 40,
                cost_usd=0.5,
            )
        )
        if number in (1, 4):
            events.append(
                e.ProgramApplied(
                    time=3.0,
                    update=update,
                    decision=number,
                    version=f"v00{number}",
                    previous="v000",
                    asked_at=update,
                    effective_from=update + 1,
                    sides=("updater",),
                    seconds=0.1,
                )
            )
        if number == 3:
            events.append(
                e.ProgramRefused(
                    time=3.0, update=30, decision=3, version="v003", stage="build", sentence="no name", undone="exactly"
                )
            )
    events.append(
        e.ProgramReverted(time=4.0, update=55, version="v004", goes_on_with="v001", why="its trial failed"),
    )
    events.append(
        e.RunEnded(time=9.0, update=400, outcome="finished", version="v001", agent_wait_seconds=120.0, cost_usd=2.0)
    )
    return events


@pytest.fixture
def waiting_story() -> list[e.AnyEvent]:
    """A run with `manual` that waits for the answer to decision 1."""
    return [started(), e.DecisionAsked(time=1.0, update=10, decision=1, reasons=("scheduled",), waits=True)]
