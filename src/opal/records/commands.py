"""What a person asks of a running run: lines of `commands.jsonl`, written by the command line, read by the run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from opal.errors import RunFolderError
from opal.records.disk import fault_name, write_all
from opal.records.line_tail import LineTail
from opal.records.run_folder import RunFolder
from opal.records.strict_json import encode

CommandName = Literal["note", "answer", "ask", "pause", "resume", "stop-agent", "revert", "approve", "reject"]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One wish: when (seconds since 1970), what, and its arguments.

    `note` has `text`; `answer` has `text`, or `keep=True`.
    """

    time: float
    name: str
    arguments: dict[str, Any] = {}


def append_command(folder: RunFolder, name: CommandName, **arguments: Any) -> None:
    """Append a command in one write, and see it on the disk.

    Raises:
        RunFolderError: the file cannot be written.
    """
    line = encode(Command(time=time.time(), name=name, arguments=arguments)) + b"\n"
    try:
        file = os.open(folder.commands, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            write_all(file, b"\n" + line if torn else line)
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise RunFolderError(f"{folder.commands} cannot be written: {fault_name(error)}") from error


class CommandReader:
    """Reads what was appended since the last `read`. Lines that are torn or no command are skipped."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._tail = LineTail(path, from_end=from_end)

    def read(self) -> list[Command]:
        """The new commands; none where the file is missing or cannot be read."""
        commands = []
        for line in self._tail.read():
            try:
                commands.append(_DECODER.decode(line))
            except (msgspec.DecodeError, RecursionError):
                continue
        return commands


_DECODER = msgspec.json.Decoder(Command)
