"""Which sources an agent gets: all, none, or all whose file name matches no pattern of `share_code`."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import PurePath

from opal.config import RunConfig


def is_shared(config: RunConfig, name: str | None) -> bool:
    """Whether the source in the file `name` (a path or a bare name) is copied for the agent."""
    share = config.agent.share_code
    if name is None or isinstance(share, bool):
        return name is not None and bool(share)
    return not any(fnmatch(name, pattern) or fnmatch(PurePath(name).name, pattern) for pattern in share)
