"""Whether the installed package is the one that was released: a changed one changes every run without a word."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from importlib import metadata
from pathlib import Path

_DISTRIBUTION = "opal-optimizer"
_GIT_SECONDS = 2.0


def changed_files() -> tuple[str, ...]:
    """Files of the installed package that differ from its record; empty where there is none."""
    try:
        files = metadata.distribution(_DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        return ()
    changed = []
    for file in files:
        if file.hash is None or file.suffix == ".pyc" or file.parts[0] != "opal":
            continue
        try:
            data = Path(str(file.locate())).read_bytes()
        except OSError:
            changed.append(f"{file} (missing)")
            continue
        digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, data).digest()).rstrip(b"=").decode()
        if digest != file.hash.value:
            changed.append(str(file))
    return tuple(changed)


def source_checkout() -> str | None:
    """For a source checkout its commit, and whether it has changes; None for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists() or not (root / "pyproject.toml").exists():
        return None
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    changes = _git(root, "status", "--porcelain", "--", "src")
    return f"{commit} with changes" if changes else commit


def _git(root: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
