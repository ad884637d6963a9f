"""The writer brings records to the run folder, in order, without holding up its callers."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opal.records import disk
from opal.records.commands import Command, append_command
from opal.records.events import CheckRecord, RecordsLost, TrialPassed
from opal.records.reader import read_run
from opal.records.run_folder import RunFolder
from opal.records.writer import RecordWriter
from opal.types import Metric, Report

MakeWriter = Callable[..., RecordWriter]


def passed(update: int) -> TrialPassed:
    return TrialPassed(time=1.0, update=update, version="v001")


def test_everything_given_is_there_after_close(
    folder: RunFolder, make_writer: MakeWriter, run_json: dict[str, Any], warnings_seen: list[str]
) -> None:
    writer = make_writer()
    writer.json(folder.run_json, run_json)
    for update in range(100):
        writer.event(passed(update))
    writer.check(CheckRecord(update=2, first=1, values=(1.0, math.nan)))
    writer.report(Report(update=2, values={"ratio": math.inf, "text": "fine"}))
    writer.metric(Metric(update=2, name="dev", value=math.nan, shown=True))
    writer.text(folder.final, "v001\n")
    writer.program("v001", {"updater.py": "x = 1\n", "parts/rules.py": "y = 2\n"})
    assert writer.close(10)
    run = read_run(folder.root)
    assert [event.update for event in run.events] == list(range(100))
    assert run.losses[0].values[0] == 1.0
    assert math.isnan(run.losses[0].values[1] or 0.0)
    assert run.reports == (Report(update=2, values={"ratio": math.inf, "text": "fine"}),)
    assert math.isnan(run.metrics[0].value)
    assert run.final_version == "v001"
    assert run.programs["v001"] == {"updater.py": "x = 1\n", "parts/rules.py": "y = 2\n"}
    assert (writer.lost, warnings_seen) == (0, [])
    assert not [path for path in folder.root.rglob(".*") if path.is_file()]


def test_flush_waits_for_what_was_given_before(folder: RunFolder, make_writer: MakeWriter) -> None:
    writer = make_writer()
    writer.event(passed(7))
    assert writer.flush(10)
    assert json.loads(folder.events.read_bytes())["update"] == 7


def test_flush_without_a_thread_says_no_at_once(make_writer: MakeWriter) -> None:
    writer = make_writer(start=False)
    writer.event(passed(1))
    assert not writer.flush(60)


def test_a_record_after_close_is_dropped(folder: RunFolder, make_writer: MakeWriter) -> None:
    writer = make_writer()
    writer.event(passed(1))
    assert writer.close(10)
    writer.event(passed(2))
    assert writer.close(10)
    assert not writer.flush(0.01)
    assert len(folder.events.read_bytes().splitlines()) == 1


def test_too_many_records_are_counted_and_the_gap_is_marked(
    folder: RunFolder, make_writer: MakeWriter, run_json: dict[str, Any]
) -> None:
    writer = make_writer(start=False, queue_size=10)
    writer.json(folder.run_json, run_json)
    for update in range(1, 30):
        writer.event(passed(update))
    assert writer.lost == 20
    writer.start()
    assert writer.flush(10)
    events = read_run(folder.root).events
    assert [event.update for event in events[:-1]] == list(range(1, 10))
    assert isinstance(events[-1], RecordsLost)
    assert (events[-1].count, events[-1].update) == (20, 9)
    assert not writer.close(10)


def test_files_come_before_the_events_that_speak_of_them(
    folder: RunFolder, make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def note(path: Path, data: object) -> None:
        order.append(path.name)

    for name in ("append", "replace", "write_folder"):
        monkeypatch.setattr(disk, name, note)
    writer = make_writer(start=False)
    writer.event(passed(1))
    writer.check(CheckRecord(update=1, first=1, values=(1.0,)))
    writer.program("v001", {"updater.py": "x"})
    writer.text(folder.final, "v001\n")
    writer.start()
    assert writer.close(10)
    assert order == ["v001", "FINAL", "losses.jsonl", "events.jsonl"]


def test_a_reader_of_a_replaced_file_sees_the_old_or_the_new_one(folder: RunFolder, make_writer: MakeWriter) -> None:
    writer = make_writer()
    writer.text(folder.final, "v001\n")
    assert writer.flush(10)
    with folder.final.open() as old:
        writer.text(folder.final, "v002\n")
        assert writer.close(10)
        assert old.read() == "v001\n"
    assert folder.final.read_text() == "v002\n"


def test_a_torn_line_of_an_earlier_process_is_closed(
    folder: RunFolder, make_writer: MakeWriter, run_json: dict[str, Any]
) -> None:
    folder.events.write_bytes(b'{"kind":"trial_passed","time":1.0,"upd')
    writer = make_writer()
    writer.json(folder.run_json, run_json)
    writer.event(passed(5))
    assert writer.close(10)
    run = read_run(folder.root)
    assert [event.update for event in run.events] == [5]
    assert run.torn_lines == 1


@pytest.mark.parametrize("name", ["../outside.py", "/outside.py", "a/../../outside.py"])
def test_a_program_cannot_write_outside_its_folder(folder: RunFolder, make_writer: MakeWriter, name: str) -> None:
    writer = make_writer()
    writer.program("v001", {name: "x"})
    assert not writer.close(10)
    assert writer.lost == 1
    assert not list(folder.root.parent.rglob("outside.py"))
    assert "outside" in folder.events.read_text()


def test_a_program_that_is_written_again_replaces_the_old_one(folder: RunFolder, make_writer: MakeWriter) -> None:
    writer = make_writer()
    writer.program("v001", {"updater.py": "old", "extra.py": "old"})
    assert writer.flush(10)
    writer.program("v001", {"updater.py": "new"})
    assert writer.close(10)
    assert [path.name for path in folder.program("v001").iterdir()] == ["updater.py"]
    assert (folder.program("v001") / "updater.py").read_text() == "new"


def test_new_commands_arrive_on_the_writers_thread_and_old_ones_do_not(
    folder: RunFolder, make_writer: MakeWriter
) -> None:
    append_command(folder, "note", text="before the run")
    seen: list[Command] = []
    threads: list[str] = []
    arrived = threading.Event()

    def take(commands: list[Command]) -> None:
        seen.extend(commands)
        threads.append(threading.current_thread().name)
        arrived.set()

    make_writer(on_commands=take)
    append_command(folder, "note", text="now")
    assert arrived.wait(10)
    assert [(command.name, command.arguments) for command in seen] == [("note", {"text": "now"})]
    assert threads == ["opal-records"]


def test_a_callback_that_raises_does_not_end_the_thread(
    folder: RunFolder, make_writer: MakeWriter, warnings_seen: list[str]
) -> None:
    called = threading.Event()

    def fail(commands: list[Command]) -> None:
        called.set()
        raise RuntimeError("boom")

    writer = make_writer(on_commands=fail)
    append_command(folder, "note", text="x")
    assert called.wait(10)
    writer.event(passed(1))
    assert writer.close(10)
    assert len(folder.events.read_bytes().splitlines()) == 1
    assert any("boom" in text for text in warnings_seen)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_nothing(folder: RunFolder, make_writer: MakeWriter) -> None:
    writer = make_writer()
    child = os.fork()
    if child == 0:
        writer.event(passed(1))
        clean = not writer._queue and not writer.flush(60) and not writer.close(60)
        os._exit(0 if clean else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert writer.close(10)
    assert not folder.events.exists()
