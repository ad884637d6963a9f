"""A faulty disk costs one warning and, at worst, a marked gap; a killed process leaves a folder that can be read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import opal
from opal.records.events import CheckRecord, RecordsLost, TrialPassed
from opal.records.reader import read_run
from opal.records.run_folder import RunFolder
from opal.records.store import VANISHED
from opal.records.writer import RecordWriter

MakeWriter = Callable[..., RecordWriter]
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(Path(opal.__file__).parents[1]))

needs_dev_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def passed(update: int) -> TrialPassed:
    return TrialPassed(time=1.0, update=update, version="v001")


@needs_dev_full
def test_a_full_disk_costs_one_warning_and_nothing_else_once_it_has_room(
    folder: RunFolder, make_writer: MakeWriter, run_json: dict[str, Any], warnings_seen: list[str]
) -> None:
    folder.events.symlink_to("/dev/full")
    writer = make_writer()
    writer.json(folder.run_json, run_json)
    for update in range(3):
        writer.event(passed(update))
        assert not writer.flush(10)
    assert len(warnings_seen) == 1
    assert "the disk is full" in warnings_seen[0]
    writer.check(CheckRecord(update=3, first=1, values=(1.0, 2.0, 3.0)))
    writer.flush(10)
    folder.events.unlink()
    assert writer.flush(10)
    run = read_run(folder.root)
    assert [event.update for event in run.events] == [0, 1, 2]
    assert run.losses[0].values == (1.0, 2.0, 3.0)
    assert writer.close(10)
    assert len(warnings_seen) == 1


@needs_dev_full
def test_what_a_full_disk_never_takes_is_counted_as_lost(
    folder: RunFolder, make_writer: MakeWriter, warnings_seen: list[str]
) -> None:
    folder.losses.symlink_to("/dev/full")
    writer = make_writer()
    for update in range(5):
        writer.check(CheckRecord(update=update, first=update, values=(1.0,)))
    assert not writer.close(10)
    assert writer.lost == 5
    assert len(warnings_seen) == 1


@needs_dev_full
def test_more_than_the_store_holds_is_a_marked_gap(
    folder: RunFolder, make_writer: MakeWriter, run_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opal.records.store.MOST_LINES", 4)
    folder.events.symlink_to("/dev/full")
    writer = make_writer()
    writer.json(folder.run_json, run_json)
    writer.event(passed(1))
    assert not writer.flush(10)
    for update in range(2, 11):
        writer.event(passed(update))
    assert not writer.flush(10)
    assert writer.lost == 6
    folder.events.unlink()
    assert writer.flush(10)
    events = read_run(folder.root).events
    assert [event.update for event in events] == [1, 2, 3, 4, 10]
    gap = events[-1]
    assert isinstance(gap, RecordsLost)
    assert (gap.count, gap.why) == (6, "the disk is full")


def test_a_folder_that_vanished_is_made_again_with_its_run_json(
    folder: RunFolder, make_writer: MakeWriter, run_json: dict[str, Any], warnings_seen: list[str]
) -> None:
    writer = make_writer()
    writer.json(folder.run_json, run_json)
    writer.event(passed(1))
    assert writer.flush(10)
    shutil.rmtree(folder.root)
    writer.event(passed(2))
    assert writer.flush(10)
    run = read_run(folder.root)
    assert run.info.run_id == "sample"
    assert [event.update for event in run.events] == [2, 2]
    gap = run.events[1]
    assert isinstance(gap, RecordsLost)
    assert gap.why == VANISHED
    assert len(warnings_seen) == 1
    assert VANISHED in warnings_seen[0]
    assert writer.close(10)


def test_a_file_in_the_place_of_the_folder_is_one_warning_until_it_is_gone(
    folder: RunFolder, make_writer: MakeWriter, run_json: dict[str, Any], warnings_seen: list[str]
) -> None:
    writer = make_writer()
    writer.json(folder.run_json, run_json)
    assert writer.flush(10)
    shutil.rmtree(folder.root)
    folder.root.write_text("not a folder")
    for update in (1, 2, 3):
        writer.event(passed(update))
        assert not writer.flush(10)
    faults = [text for text in warnings_seen if "cannot be written" in text]
    assert len(faults) == len(set(faults))
    folder.root.unlink()
    assert writer.flush(10)
    assert [event.update for event in read_run(folder.root).events][:3] == [1, 2, 3]


def test_one_path_that_cannot_be_written_does_not_hold_up_the_others(
    folder: RunFolder, make_writer: MakeWriter
) -> None:
    folder.losses.mkdir()
    writer = make_writer()
    writer.check(CheckRecord(update=1, first=1, values=(1.0,)))
    writer.text(folder.decision(1) / "message.txt", "hello")
    writer.event(passed(1))
    assert not writer.close(10)
    assert (folder.decision(1) / "message.txt").read_text() == "hello"
    assert json.loads(folder.events.read_bytes().splitlines()[0])["update"] == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_disk_that_hangs_holds_up_no_caller(folder: RunFolder, make_writer: MakeWriter) -> None:
    os.mkfifo(folder.losses)
    writer = make_writer(queue_size=50)
    values = tuple(float(number) for number in range(20_000))
    for update in range(5):
        writer.check(CheckRecord(update=update, first=update, values=values))
    assert not writer.flush(1)
    for update in range(100):
        writer.check(CheckRecord(update=update, first=update, values=(1.0,)))
    assert writer.lost > 0
    assert not writer.close(0.1)
    reading = os.open(folder.losses, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while not ended(writer):
            with suppress(BlockingIOError):
                os.read(reading, 1 << 20)
    finally:
        os.close(reading)


def ended(writer: RecordWriter) -> bool:
    """Give the thread a moment, and see whether it has ended."""
    writer.close(0.01)
    assert writer._thread is not None
    return not writer._thread.is_alive()


LIMITED = """
import resource, sys
from pathlib import Path
from opal.records.events import TrialPassed
from opal.records.run_folder import RunFolder
from opal.records.writer import RecordWriter
folder = RunFolder(Path(sys.argv[1]))
warned = []
writer = RecordWriter(folder, warn=warned.append)
writer.start()
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
for update in range(40):
    writer.event(TrialPassed(time=1.0, update=update, version="v001"))
assert not writer.flush(20)
assert folder.events.stat().st_size == 0, "a part of a batch was left"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert writer.flush(20)
assert writer.close(20) and len(warned) == 1, warned
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of resources")
def test_half_a_batch_is_taken_back_and_written_whole_later(folder: RunFolder, run_json: dict[str, Any]) -> None:
    folder.run_json.write_text(json.dumps(run_json))
    command = [sys.executable, "-c", LIMITED, str(folder.root)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = read_run(folder.root)
    assert [event.update for event in run.events] == list(range(40))
    assert run.torn_lines == 0


KILLED = """
import itertools, sys
from pathlib import Path
from opal.records.events import CheckRecord, TrialPassed
from opal.records.run_folder import RunFolder
from opal.records.writer import RecordWriter
folder = RunFolder(Path(sys.argv[1]))
writer = RecordWriter(folder, warn=print)
writer.start()
for update in itertools.count():
    writer.event(TrialPassed(time=1.0, update=update, version="v" * 200))
    writer.check(CheckRecord(update=update, first=update, values=(1.0,) * 50))
    writer.json(folder.root / "state.json", {"update": update, "filler": "x" * 2000})
    if update % 100 == 0:
        writer.flush(10)
        print(update, flush=True)
"""


def test_a_killed_process_leaves_whole_lines_and_whole_files(folder: RunFolder, run_json: dict[str, Any]) -> None:
    folder.run_json.write_text(json.dumps(run_json))
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, str(folder.root)]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            seen = [int(process.stdout.readline()) for _ in range(4)][-1]
            process.send_signal(signal.SIGKILL)
        run = read_run(folder.root)
        assert run.events[-1].update >= seen
        assert run.losses[-1].values == (1.0,) * 50
        assert run.torn_lines <= 3  # at most one for each process that was killed
        assert json.loads((folder.root / "state.json").read_bytes())["update"] >= seen
