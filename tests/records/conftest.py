"""A run folder, a writer that is closed in the end, and what it warned of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opal.records.run_folder import RunFolder, new_run_folder
from opal.records.writer import RecordWriter

RUN_JSON: dict[str, Any] = {
    "format": 1,
    "run_id": "sample",
    "started": "2026-12-01T10:00:00+00:00",
    "total_steps": 400,
    "goal": "a low loss",
}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return new_run_folder(str(tmp_path / "run"))


@pytest.fixture
def run_json() -> dict[str, Any]:
    return dict(RUN_JSON)


@pytest.fixture
def warnings_seen() -> list[str]:
    return []


@pytest.fixture
def make_writer(folder: RunFolder, warnings_seen: list[str]) -> Iterator[Callable[..., RecordWriter]]:
    made: list[RecordWriter] = []

    def make(*, start: bool = True, **options: Any) -> RecordWriter:
        writer = RecordWriter(folder, warn=warnings_seen.append, **options)
        made.append(writer)
        if start:
            writer.start()
        return writer

    yield make
    for writer in made:
        writer.close(10)
