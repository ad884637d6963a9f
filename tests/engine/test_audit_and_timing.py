"""One update of each program is counted, updates are timed, and a changed installation is said."""

from __future__ import annotations

import base64
import hashlib
import logging
import math
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.edited_run import Loop, assert_same_end, edit, train, wrapped
from opal.engine import assemble, installation
from opal.records import events
from opal.testing.scripted import ScriptedBackend

COUNTED = """
import torch
from part import read
class Updater:
    def __init__(self, params):
        self.params = params
        self.param_groups = [{"params": params, "lr": 0.01}]
    def step(self, grads, update):
        torch._foreach_add_(self.params, [grads[name] for name in grads], alpha=-0.01)
        self.params[0].sum().item()
        for _ in range(3):
            read(self.params[1])
def build(named_params, previous=None, spec=None):
    return Updater([param for _, param in named_params])
"""
PART = "def read(param):\n    return bool(param.sum() > 0)\n"


def test_the_audited_update_is_counted_by_operator_and_place_and_changes_nothing(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: edit(COUNTED, part=PART)})
    run = train(wrapped(tmp_path, backend=backend))
    starting, own = run.events(events.ProgramAudited)
    assert (starting.version, own.version) == ("v000", "v001")
    assert starting.operator_calls > 1
    # one foreach, then sum and read, then three times sum, compare, read
    assert (own.operator_calls, own.host_reads) == (1 + 2 + 3 * 3, 4)
    assert own.host_read_places == ("part.py:2 (3×)", "updater.py:10 (1×)")
    assert "part.py:2" in backend.turns[1].message

    @torch.no_grad()
    def by_hand(loop: Loop, update: int, loss: torch.Tensor) -> None:
        if update < 20:
            loop.inner.step()
        else:
            params = list(loop.model.parameters())
            torch._foreach_add_(params, [param.grad for param in params], alpha=-0.01)

    assert_same_end(train(step=by_hand), run, but=("optimizer",))


def test_times_are_finite_positive_and_the_programs_part_is_a_part(tmp_path: Path) -> None:
    run = train(wrapped(tmp_path, {1: edit(COUNTED, part=PART)}))
    checks = run.record.losses
    assert [check.update for check in checks] == [10, 20, 30, 40, 50, 60]
    for check in checks:
        assert check.wall_ms is not None
        assert check.program_ms is not None
        assert math.isfinite(check.wall_ms)
        assert 0 < check.program_ms < check.wall_ms


def test_changed_and_missing_files_of_an_installation_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Digest:
        mode = "sha256"

        def __init__(self, data: bytes) -> None:
            self.value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

    class Distribution:
        files: list[Any] = []  # noqa: RUF012

    (tmp_path / "opal").mkdir()
    for name, recorded, there in (("same", b"1", b"1"), ("changed", b"1", b"2"), ("gone", b"1", None)):
        file = metadata.PackagePath(f"opal/{name}.py")
        file.hash = Digest(recorded)  # type: ignore[assignment]
        file.dist = type("Dist", (), {"locate_file": lambda self, path: tmp_path / str(path)})()
        if there is not None:
            (tmp_path / "opal" / f"{name}.py").write_bytes(there)
        Distribution.files.append(file)
    monkeypatch.setattr(installation.metadata, "distribution", lambda name: Distribution)
    assert installation.changed_files() == ("opal/changed.py", "opal/gone.py (missing)")
    monkeypatch.setattr(assemble, "source_checkout", lambda: None)
    with caplog.at_level(logging.WARNING, "opal"):
        run = train(wrapped(tmp_path / "runs"), updates=2)
    (event,) = run.events(events.InstallationChanged)
    assert event.files == ("opal/changed.py", "opal/gone.py (missing)")
    assert any("2 files of the installed opal-optimizer differ" in record.getMessage() for record in caplog.records)
