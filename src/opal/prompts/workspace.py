"""The workspace: what lies in it before the first decision."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from opal.config import RunConfig
from opal.prompts.example_updater import example_updater
from opal.prompts.share import is_shared
from opal.prompts.starting_optimizer import starting_optimizer_text
from opal.records.run_folder import RunFolder
from opal.types import RunFacts

_NOTES = """# Notes

Yours, for later decisions of this run: what was tried, what was measured, what follows. No part of the program.
"""


def prepare_workspace(
    folder: RunFolder, program_files: Mapping[str, str], config: RunConfig, facts: RunFacts
) -> tuple[str, ...]:
    """Write the program, `NOTES.md`, `scratch/`, `inbox/` and the read-only `reference/`.

    `program_files` are texts by path below the workspace. Returns the paths of all files written, below the workspace,
    sorted. A `NOTES.md` that is there already stays.

    Raises:
        OSError: the folder cannot be written.
    """
    workspace = folder.workspace
    for path in (workspace / "scratch", folder.inbox, folder.reference):
        path.mkdir(parents=True, exist_ok=True)
    for name, text in program_files.items():
        _write(workspace / name, text)
    if not (workspace / "NOTES.md").exists():
        _write(workspace / "NOTES.md", _NOTES)
    references = reference_files(config, facts)
    for name, text in references.items():
        _write(folder.reference / name, text, read_only=True)
    return tuple(sorted([*program_files, "NOTES.md", *(f"reference/{name}" for name in references)]))


def reference_files(config: RunConfig, facts: RunFacts) -> dict[str, str]:
    """The texts of `reference/` by file name; sources only as far as `share_code` allows."""
    files = {
        "task.txt": "\n\n".join(filter(None, [config.task.goal, config.task.task_facts])) + "\n",
        "model.txt": facts.model.summary.strip() + "\n",
        "starting_optimizer.txt": starting_optimizer_text(config, facts),
        "example_updater.py": example_updater(config, facts),
        **_kit_sources(),
    }
    if facts.script is not None and is_shared(config, facts.script):
        text = _read(Path(facts.script))
        if text is not None:
            _add(files, Path(facts.script).name, text)
    for name, text in facts.model.sources.items():
        if is_shared(config, name):
            _add(files, Path(name).name, text)
    home_made = [(kind.name, kind.source) for kind in facts.optimizers]
    home_made += [(kind.name, kind.source) for kind in facts.schedulers]
    for name, source in home_made:
        if source is not None and is_shared(config, f"{name}.py"):
            _add(files, f"{name}.py", source)
    return files


def _kit_sources() -> dict[str, str]:
    """The kit's source under `kit/`, for an agent that sees its workspace only. Read as text: importing needs torch."""
    kit = Path(__file__).parents[1] / "kit"
    return {f"kit/{path.relative_to(kit).as_posix()}": path.read_text(encoding="utf-8") for path in kit.rglob("*.py")}


def _add(files: dict[str, str], name: str, text: str) -> None:
    """Add a source under its name; a second one of the same name gets a number, the same text is added once."""
    name = re.sub(r"[^\w.\- ]", "_", name) or "source.py"
    stem, suffix = os.path.splitext(name)
    number = 1
    while name in files:
        if files[name] == text:
            return
        number += 1
        name = f"{stem}_{number}{suffix}"
    files[name] = text


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _write(path: Path, text: str, *, read_only: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.exists():
        path.unlink()  # a read-only file from before cannot be opened for writing
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    if read_only:
        path.chmod(0o444)
