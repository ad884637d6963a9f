"""Records on their way to the run folder: kept in bounded memory until the disk takes them, counted when lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from opal.records import disk
from opal.records.events import Event, RecordsLost
from opal.records.run_folder import RunFolder
from opal.records.strict_json import encode

MOST_LINES = 10_000
MOST_BYTES = 64 * 1024 * 1024
TRY_AGAIN_AFTER = 1.0

VANISHED = "the run folder was removed, and is made again"


class Losses:
    """Counts lost records and why they were lost. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unmarked: dict[str, int] = {}
        self.total = 0

    def add(self, count: int, why: str) -> None:
        """So many more were lost; none, where it is not known how many."""
        with self._lock:
            self.total += count
            self._unmarked[why] = self._unmarked.get(why, 0) + count

    def take_unmarked(self) -> dict[str, int]:
        """Why and how many since this was last called."""
        with self._lock:
            unmarked, self._unmarked = self._unmarked, {}
        return unmarked

    def put_back(self, count: int, why: str) -> None:
        """These were taken, and could not be marked."""
        with self._lock:
            self._unmarked[why] = self._unmarked.get(why, 0) + count


class RecordStore:
    """Puts records into a run folder. For one thread; nothing here raises for a faulty disk."""

    def __init__(self, folder: RunFolder, warn: Callable[[str], None], losses: Losses) -> None:
        self._folder = folder
        self._warn = warn
        self._losses = losses
        self._lines: dict[Path, list[bytes]] = {}
        self._files: dict[Path, Callable[[], None]] = {}
        self._bytes = 0
        self._seen = False
        self._update = 0
        self._run_json: Callable[[], None] | None = None
        self._faults: set[str] = set()
        self._last_fault = ""
        self._next_try = 0.0

    @property
    def settled(self) -> bool:
        """Whether nothing waits for the disk."""
        return not self._files and not self._lines

    def take_line(self, path: Path, value: Any) -> None:
        """A line for the end of a file. Where too much waits, the newest one is lost."""
        if isinstance(value, Event):
            self._update = max(self._update, value.update)
        line = encode(value) + b"\n"
        waiting = self._lines.setdefault(path, [])
        if len(waiting) >= MOST_LINES or self._bytes + len(line) > MOST_BYTES:
            self._losses.add(1, self._last_fault or "too many records at once")
            return
        waiting.append(line)
        self._bytes += len(line)

    def take_file(self, path: Path, data: bytes) -> None:
        """A file that is replaced whole; an earlier one for the same path is not needed any more."""
        path = self._folder.root / path

        self._files[path] = partial(disk.replace, path, data)
        if path == self._folder.run_json:
            self._run_json = self._files[path]

    def take_program(self, version: str, files: Mapping[str, str]) -> None:
        """A folder that appears whole."""
        path = self._folder.program(version)
        contents = {name: text.encode("utf-8", "replace") for name, text in files.items()}
        self._files[path] = partial(disk.write_folder, path, contents)

    def write(self, *, now: bool) -> None:
        """Try everything once, after a fault only every second unless it must be `now`.

        Files come first and events last, so that no event speaks of a file that is not there yet.
        """
        if not now and time.monotonic() < self._next_try:
            return
        self._next_try = 0.0
        self._make_again()
        for path, write in list(self._files.items()):
            if self._try(write):
                del self._files[path]
        for path in sorted(self._lines, key=lambda path: path == self._folder.events):
            self._append(path)
        self._mark_gap()

    def give_up(self) -> None:
        """Count everything that still waits as lost."""
        count = len(self._files) + sum(map(len, self._lines.values()))
        self._files.clear()
        self._lines.clear()
        if count:
            self._losses.add(count, self._last_fault)

    def fault(self, what: str) -> None:
        """Warn of a fault, once for each kind."""
        self._last_fault = what
        self._next_try = time.monotonic() + TRY_AGAIN_AFTER
        self._warn_once(
            what, "records of this run cannot be written ({}: {}); training goes on, and they are tried again"
        )

    def _make_again(self) -> None:
        """A folder that was there and is gone is made again, with the `run.json` by which readers know it."""
        if self._folder.root.is_dir():
            self._seen = True
        elif self._seen and not self.settled:
            self._warn_once(VANISHED, "{} ({}); what was in it is lost, training goes on")
            self._losses.add(0, VANISHED)
            if self._run_json is not None:
                self._files.setdefault(self._folder.run_json, self._run_json)

    def _warn_once(self, what: str, text: str) -> None:
        if what not in self._faults:
            self._faults.add(what)
            with suppress(Exception):
                self._warn(text.format(what, self._folder.root))

    def _append(self, path: Path) -> None:
        lines = self._lines[path]
        if self._try(partial(disk.append, path, b"".join(lines))):
            self._bytes -= sum(map(len, lines))
            del self._lines[path]

    def _mark_gap(self) -> None:
        if self._folder.events in self._lines:  # not written now: the gap is not over
            return
        for why, count in self._losses.take_unmarked().items():
            event = RecordsLost(time=time.time(), update=self._update, count=count, why=why)
            line = encode(event) + b"\n"
            if not self._try(partial(disk.append, self._folder.events, line)):
                self._losses.put_back(count, why)

    def _try(self, write: Callable[[], None]) -> bool:
        """Whether it was written; what can never be written counts as lost."""
        try:
            write()
        except OSError as error:
            self.fault(disk.fault_name(error))
            return False
        except ValueError as error:
            self._losses.add(1, str(error))
        return True
