"""Every path of a run folder, and how a run folder is made."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from opal.errors import RunFolderError


@dataclass(frozen=True)
class RunFolder:
    """The paths below a run folder's root. Nothing here reads or writes."""

    root: Path

    @property
    def run_json(self) -> Path:
        """What the run is: goal, options, versions, hardware, command, start, end."""
        return self.root / "run.json"

    @property
    def events(self) -> Path:
        """Everything that happened, one typed event a line."""
        return self.root / "events.jsonl"

    @property
    def losses(self) -> Path:
        """One line a check: first update, losses, learning rates, times."""
        return self.root / "losses.jsonl"

    @property
    def reports(self) -> Path:
        """What the analysis reported."""
        return self.root / "reports.jsonl"

    @property
    def metrics(self) -> Path:
        """Values of `log` and `report_dev`."""
        return self.root / "metrics.jsonl"

    @property
    def system(self) -> Path:
        """The system prompt."""
        return self.root / "system.md"

    @property
    def programs(self) -> Path:
        """Every version that was built."""
        return self.root / "programs"

    def program(self, version: str) -> Path:
        """The folder of one version."""
        return self.programs / version

    @property
    def final(self) -> Path:
        """Names the last version in force."""
        return self.programs / "FINAL"

    @property
    def decisions(self) -> Path:
        """One folder a decision."""
        return self.root / "decisions"

    def decision(self, number: int) -> Path:
        """The folder of one decision: `message.txt`, `response.json`, `rejected/`, the backend's transcript."""
        return self.decisions / f"{number:03d}"

    @property
    def workspace(self) -> Path:
        """The only folder that the agent works in."""
        return self.root / "workspace"

    @property
    def inbox(self) -> Path:
        """One JSON file per decision, and `reports.csv`."""
        return self.workspace / "inbox"

    @property
    def reference(self) -> Path:
        """What the agent may read about the run: script, model, optimizer, an example."""
        return self.workspace / "reference"

    @property
    def commands(self) -> Path:
        """What a person asked for."""
        return self.root / "commands.jsonl"

    @property
    def page(self) -> Path:
        """The report."""
        return self.root / "report.html"


def new_run_folder(run_dir: str | None) -> RunFolder:
    """Make the run folder: `run_dir`, or `opal_runs/<time>-<pid>-<random>` where none is named.

    Raises:
        RunFolderError: it cannot be made, or holds a run already.
    """
    if run_dir is None:
        random = os.urandom(3).hex()
        root = Path("opal_runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{random}"
    else:
        root = Path(run_dir)
    folder = RunFolder(root.absolute())
    taken = [path.name for path in (folder.programs, folder.decisions, folder.workspace) if path.exists()]
    if taken and not folder.run_json.exists():
        raise RunFolderError(f"run_dir={str(root)!r} holds {taken[0]!r}, which is not a run's: name another folder")
    if folder.run_json.exists():
        raise RunFolderError(f"run_dir={str(root)!r} holds a run already: name another folder, or delete this one")
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        for path in (folder.programs, folder.decisions, folder.inbox, folder.reference, folder.workspace / "scratch"):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(
            f"run_dir={str(root)!r} cannot be made ({error}): name a folder that you can write"
        ) from error
    return folder


def remove_run_folder(folder: RunFolder) -> None:
    """Remove what `new_run_folder` made, for a run that never began; nothing of somebody else's is among it."""
    for path in (folder.programs, folder.decisions, folder.workspace):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # not empty: it was there before
        folder.root.rmdir()
