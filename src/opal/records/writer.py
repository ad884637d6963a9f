"""The only writer of a run folder: one thread, fed from a bounded queue, so that no disk ever holds up training."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from opal.records.commands import Command, CommandReader
from opal.records.events import CheckRecord, Event
from opal.records.run_folder import RunFolder
from opal.records.store import Losses, RecordStore
from opal.records.strict_json import encode
from opal.types import Metric, Report

WRITE_EVERY = 0.25
LOOK_FOR_COMMANDS_EVERY = 1.0

_Item: TypeAlias = Callable[[RecordStore], None]


class RecordWriter:
    """Takes records from any thread and brings them to the run folder within about a quarter of a second.

    The methods that take a record only put it into a queue: they never block and never raise, and what they are given
    must not be changed afterwards. What a faulty disk does not take is kept, within bounds, and tried again every
    second; each kind of fault costs one call of `warn`. What is lost in the end is counted, and a `RecordsLost` event
    marks the gap. `warn` and `on_commands` are called on the writer's thread. In a forked child nothing is done.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        warn: Callable[[str], None],
        on_commands: Callable[[list[Command]], None] | None = None,
        queue_size: int = 10_000,
    ) -> None:
        self._folder = folder
        self._on_commands = on_commands
        self._queue: deque[_Item] = deque()
        self._queue_size = queue_size
        self._losses = Losses()
        self._store = RecordStore(folder, warn, self._losses)
        self._commands = CommandReader(folder.commands, from_end=True)
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    # ── Called by anybody ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def lost(self) -> int:
        """How many records were lost so far."""
        return self._losses.total

    def start(self) -> None:
        """Begin to write. What was given before is written first."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="opal-records", daemon=True)
            self._thread.start()

    def event(self, event: Event) -> None:
        """A line of `events.jsonl`."""
        self._put(lambda store: store.take_line(self._folder.events, event))

    def check(self, check: CheckRecord) -> None:
        """A line of `losses.jsonl`."""
        self._put(lambda store: store.take_line(self._folder.losses, check))

    def report(self, report: Report) -> None:
        """A line of `reports.jsonl`."""
        self._put(lambda store: store.take_line(self._folder.reports, report))

    def metric(self, metric: Metric) -> None:
        """A line of `metrics.jsonl`."""
        self._put(lambda store: store.take_line(self._folder.metrics, metric))

    def text(self, path: Path, text: str) -> None:
        """A file, replaced whole."""
        self._put(lambda store: store.take_file(path, text.encode("utf-8", "replace")))

    def json(self, path: Path, value: Any) -> None:
        """A file of strict JSON, replaced whole."""
        self._put(lambda store: store.take_file(path, encode(value) + b"\n"))

    def program(self, version: str, files: Mapping[str, str]) -> None:
        """The files of a version, by their paths inside `programs/<version>`. The folder appears whole."""
        self._put(lambda store: store.take_program(version, files))

    def flush(self, timeout: float) -> bool:
        """Wait until everything given so far is on its way to the disk; whether it is written."""
        thread = self._thread
        if os.getpid() != self._process or thread is None or thread is threading.current_thread():
            return False
        flush = _Flush()
        self._queue.append(flush)
        self._wake.set()
        return thread.is_alive() and flush.done.wait(timeout) and flush.written

    def close(self, timeout: float) -> bool:
        """Write what is there and end the thread; whether it all was written in time. Later records are dropped."""
        if os.getpid() != self._process:
            return False
        self._closing = True
        if self._thread is not None:
            self._wake.set()
            self._thread.join(timeout)
            if self._thread.is_alive():
                return False
        return self._losses.total == 0

    def _put(self, item: _Item) -> None:
        if self._closing or os.getpid() != self._process:
            return
        waiting = len(self._queue)
        if waiting >= self._queue_size:
            self._losses.add(1, "too many records at once, or a slow disk")
            return
        self._queue.append(item)
        if waiting == self._queue_size // 2:
            self._wake.set()

    # ── The writer's thread ──────────────────────────────────────────────────────────────────────────────────────

    def _work(self) -> None:
        look_at = 0.0
        while True:
            self._wake.wait(WRITE_EVERY)
            self._wake.clear()
            closing = self._closing
            self._write(closing)
            if closing:
                return
            if self._on_commands is not None and time.monotonic() >= look_at:
                look_at = time.monotonic() + LOOK_FOR_COMMANDS_EVERY
                self._guard(self._look_for_commands)

    def _write(self, closing: bool) -> None:
        flushes: list[_Flush] = []
        for _ in range(len(self._queue)):
            item = self._queue.popleft()
            if isinstance(item, _Flush):
                flushes.append(item)
            else:
                self._guard(partial(item, self._store))
        self._guard(lambda: self._store.write(now=closing or bool(flushes)))
        if closing:
            self._store.give_up()
        for flush in flushes:
            flush.written = self._store.settled
            flush.done.set()

    def _look_for_commands(self) -> None:
        commands = self._commands.read()
        if commands and self._on_commands is not None:
            self._on_commands(commands)

    def _guard(self, work: Callable[[], None]) -> None:
        """Nothing that goes wrong on this thread may end it."""
        try:
            work()
        except Exception as error:
            self._store.fault(f"{type(error).__name__}: {error}")


class _Flush:
    """A place in the queue that somebody waits for."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.written = False

    def __call__(self, store: RecordStore) -> None:
        """Nothing to take."""
