"""`run.json`, and where the run folder is that a person means."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from opal.errors import RunFolderError
from opal.records.disk import fault_name
from opal.records.run_folder import RunFolder

FORMAT = 1
RUNS = Path("opal_runs")

_DEEPEST_FILE = 6

State = Literal["finished", "running", "killed", "unknown"]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the run is. `started` and `ended` are ISO 8601."""

    format: int
    run_id: str
    started: str
    total_steps: int
    goal: str = ""
    command: str | list[str] = ""
    ended: str | None = None
    outcome: str | None = None
    options: Mapping[str, Any] = {}
    inactive: list[str] = []
    versions: Mapping[str, Any] = {}
    hardware: Any = None
    model: Mapping[str, Any] = {}
    optimizers: list[str] = []
    schedulers: list[str] = []
    world_size: int = 1
    platform: str = ""
    checkout: str | None = None
    installation: list[Any] = []
    pid: int | None = None
    host: str | None = None


def find_run(path: Path | str) -> RunFolder:
    """The run folder that `path` is, or that the file `path` lies in.

    Raises:
        RunFolderError: it is no run.
    """
    path = Path(path)
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return _run_around(path)
        with suppress(FileNotFoundError):
            os.stat(path / "run.json")
            return RunFolder(path.absolute())
        inside = sorted(item.parent.name for item in path.glob("*/run.json"))
    except FileNotFoundError as error:
        raise RunFolderError(f"{path}: there is no such folder") from error
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {fault_name(error)}") from error
    hint = f"it holds runs, name one of them, such as {path / inside[-1]}" if inside else "it has no run.json"
    raise RunFolderError(f"{path} is no run folder: {hint}")


def _run_around(file: Path) -> RunFolder:
    for folder in list(file.absolute().parents)[:_DEEPEST_FILE]:
        if (folder / "run.json").is_file():
            return RunFolder(folder)
    raise RunFolderError(f"{file} lies in no run folder: name a folder with a run.json in it")


def latest_run(runs: Path = RUNS) -> RunFolder:
    """The run in `runs` that began last, by its `run.json`.

    Raises:
        RunFolderError: there is none.
    """
    found = []
    with suppress(OSError):
        for path in runs.glob("*/run.json"):
            with suppress(RunFolderError):
                folder = RunFolder(path.parent.absolute())
                found.append((start_time(read_run_info(folder)), folder.root.name, folder))
    if not found:
        raise RunFolderError(f"there is no run in ./{runs}: name a run folder")
    return max(found, key=lambda item: item[:2])[2]


def chosen_run(run: Path | None) -> RunFolder:
    """The run that is meant: the one named, or else the latest one.

    Raises:
        RunFolderError: there is none.
    """
    return latest_run() if run is None else find_run(run)


def read_run_info(folder: RunFolder) -> RunInfo:
    """Read and check `run.json`.

    Raises:
        RunFolderError: it is missing, cannot be read, is damaged, or comes from a newer version.
    """
    path = folder.run_json
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {fault_name(error)}") from error
    try:
        info = msgspec.json.decode(data, type=RunInfo)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path} is no run.json of OPAL, or damaged: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RunFolderError(f"{path} is damaged: {error}") from error
    if info.format > FORMAT:
        raise RunFolderError(
            f"{path} has format {info.format}, this version of OPAL reads {FORMAT}: install a newer one"
        )
    return info


def start_time(info: RunInfo) -> float:
    """When the run began, in seconds since 1970; 0 where it is not told."""
    return seconds_since_1970(info.started) or 0.0


def seconds_since_1970(text: str | None) -> float | None:
    """An ISO 8601 time as seconds; None where it is none."""
    try:
        return datetime.fromisoformat((text or "").replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def unfinished_state(info: RunInfo) -> State:
    """Of a run without an end: running or killed where its process is one of this machine, else unknown."""
    if info.pid is None or info.pid <= 0 or info.host != socket.gethostname():
        return "unknown"
    try:
        os.kill(info.pid, 0)
    except ProcessLookupError:
        return "killed"
    except OSError:  # another user's
        return "running"
    return "running"
