"""Chooses the coordinator for this process."""

from __future__ import annotations

import torch

from opal.distributed.coordinator import Coordinator
from opal.distributed.single import SingleProcess
from opal.errors import NotBuiltError


def select_coordinator() -> Coordinator:
    """The single-process side.

    Raises:
        NotBuiltError: the process belongs to a group of several ranks.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        size = distributed.get_world_size()
        raise NotBuiltError(f"a run with {size} ranks", "run it in a single process, or without OPAL")
    return SingleProcess()
