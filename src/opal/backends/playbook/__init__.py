"""An agent without a model: fixed, documented rules. Free, offline, deterministic."""

from __future__ import annotations

from opal.backends.playbook.backend import PlaybookBackend

__all__ = ["PlaybookBackend"]
