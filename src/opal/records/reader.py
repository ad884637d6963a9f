"""Reads a run folder: typed, tolerant of lines that are torn or newer than this version, linear in its size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from opal.errors import RunFolderError
from opal.records.disk import fault_name
from opal.records.events import AnyEvent, CheckRecord, RunEnded
from opal.records.run_folder import RunFolder
from opal.records.run_info import RunInfo, State, find_run, read_run_info, unfinished_state
from opal.records.strict_json import restore
from opal.types import Metric, Report

T = TypeVar("T")

_TAIL_BYTES = 1 << 18


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """`response.json`: the answer of the agent, what it cost, whether it edited something."""

    text: str = ""
    cost_usd: float | None = None
    seconds: float | None = None
    edited: bool = False


@dataclass(frozen=True, kw_only=True)
class DecisionRecord:
    """The folder of one decision; its files are read when they are asked for."""

    number: int
    folder: Path

    @cached_property
    def message(self) -> str:
        """What the agent was told; empty where it is not there."""
        return _text(self.folder / "message.txt")

    @cached_property
    def response(self) -> Response | None:
        """The answer; None where there is none (yet), or where it is damaged."""
        try:
            return msgspec.json.decode(_text(self.folder / "response.json"), type=Response)
        except msgspec.DecodeError:
            return None

    @cached_property
    def rejected(self) -> Mapping[str, str]:
        """The files of refused candidates, by their paths inside `rejected/`."""
        return read_files(self.folder / "rejected")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run as its folder tells it. Everything but `info` and `events` is read when it is asked for."""

    folder: RunFolder
    info: RunInfo
    events: tuple[AnyEvent, ...]
    unknown_events: int = 0
    """Events of kinds, or with fields, that this version does not know."""
    torn_lines: int = 0
    """Lines of `events.jsonl` that are no JSON."""

    @property
    def is_finished(self) -> bool:
        """Whether the run was closed."""
        return self.info.ended is not None or (bool(self.events) and isinstance(self.events[-1], RunEnded))

    @property
    def state(self) -> State:
        """Whether the run has ended, goes on, was killed, or none can say."""
        return "finished" if self.is_finished else unfinished_state(self.info)

    @property
    def final_version(self) -> str | None:
        """The last version in force, where the run names one."""
        return _text(self.folder.final).strip() or None

    @cached_property
    def losses(self) -> tuple[CheckRecord, ...]:
        """What each check read, in the order of the updates that it was written in."""
        return tuple(read_lines(self.folder.losses, _check))

    @cached_property
    def last_check(self) -> CheckRecord | None:
        """The newest line of `losses.jsonl`, found without reading the others."""
        checks = (_check(line) for line in reversed(_last_lines(self.folder.losses)))
        return next((check for check in checks if check is not None), None)

    @cached_property
    def reports(self) -> tuple[Report, ...]:
        """The reports of the analysis."""
        return tuple(read_lines(self.folder.reports, _report))

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Logged and development values."""
        return tuple(read_lines(self.folder.metrics, _metric))

    @cached_property
    def programs(self) -> Mapping[str, Mapping[str, str]]:
        """Every version that was built, in order, with the text of its files by their paths inside it."""
        folders = sorted((path for path in _listed(self.folder.programs) if path.is_dir()), key=_by_number)
        return {path.name: read_files(path) for path in folders}

    @cached_property
    def decisions(self) -> Mapping[int, DecisionRecord]:
        """The folders of the decisions by number, in order."""
        folders = [path for path in _listed(self.folder.decisions) if path.name.isdecimal() and path.is_dir()]
        ordered = sorted(folders, key=lambda path: int(path.name))
        return {int(path.name): DecisionRecord(number=int(path.name), folder=path) for path in ordered}


def read_run(path: Path | str) -> RunRecord:
    """Read the run in a folder, or the one that a file belongs to.

    Raises:
        RunFolderError: it is no run, is damaged, or cannot be read.
    """
    folder = find_run(path)
    info = read_run_info(folder)
    events: list[AnyEvent] = []
    torn = unknown = 0
    try:
        for line in _lines(folder.events):
            event = decode_event(line)
            if event is None:
                torn += 1
            elif isinstance(event, UnknownEvent):
                unknown += 1
            else:
                events.append(event)
    except OSError as error:
        raise RunFolderError(f"{folder.events} cannot be read: {fault_name(error)}") from error
    return RunRecord(folder=folder, info=info, events=tuple(events), unknown_events=unknown, torn_lines=torn)


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event of a kind that this version does not know."""


def decode_event(line: bytes) -> AnyEvent | UnknownEvent | None:
    """The event of a line; None where the line is torn."""
    try:
        return _EVENT.decode(line)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, RecursionError):
        return None
    try:  # numbers that are not finite are written as texts
        return _LAX_EVENT.decode(line)
    except msgspec.ValidationError:
        return UnknownEvent()


def read_lines(path: Path, parse: Callable[[bytes], T | None]) -> Iterator[T]:
    """What `parse` makes of each line; lines of which it makes nothing are skipped.

    Raises:
        RunFolderError: the file is there and cannot be read.
    """
    try:
        for line in _lines(path):
            item = parse(line)
            if item is not None:
                yield item
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {fault_name(error)}") from error


def read_files(folder: Path) -> dict[str, str]:
    """The text of every file below a folder by its path inside; links and what cannot be read are left out."""
    files = {}
    for path in sorted(_below(folder)):
        files[path.relative_to(folder).as_posix()] = _text(path)
    return files


def _below(folder: Path) -> Iterator[Path]:
    for path in _listed(folder):
        if path.is_symlink() or path.name == "__pycache__":
            continue
        if path.is_dir():
            yield from _below(path)
        elif path.is_file():
            yield path


def _listed(folder: Path) -> list[Path]:
    """What lies in a folder, hidden things (half written ones) left out."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _lines(path: Path) -> Iterator[bytes]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.strip():
                yield line


def _last_lines(path: Path) -> list[bytes]:
    """The lines in the last part of a file; the first of them may be a piece of one."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().splitlines()
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _by_number(folder: Path) -> tuple[int, str]:
    digits = folder.name.lstrip("v")
    return (int(digits) if digits.isdecimal() else 0, folder.name)


def _check(line: bytes) -> CheckRecord | None:
    for decoder in (_CHECK, _LAX_CHECK):
        try:
            return decoder.decode(line)
        except msgspec.DecodeError:
            continue
    return None


def _report(line: bytes) -> Report | None:
    try:
        report = _REPORT.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if b'NaN"' in line or b'Infinity"' in line:
        return Report(update=report.update, values=restore(report.values))
    return report


def _metric(line: bytes) -> Metric | None:
    try:
        return _METRIC.decode(line)
    except msgspec.DecodeError:
        return None


_EVENT: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_LAX_EVENT: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent, strict=False)
_CHECK = msgspec.json.Decoder(CheckRecord)
_LAX_CHECK = msgspec.json.Decoder(CheckRecord, strict=False)
_REPORT = msgspec.json.Decoder(Report)
_METRIC = msgspec.json.Decoder(Metric, strict=False)
