"""Options of a backend: named, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opal.errors import ArgumentValueError


def known_options(backend: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults, with what was given on top.

    Raises:
        ArgumentValueError: an option is unknown; the text lists the known ones.
    """
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        known = f"it knows {', '.join(sorted(defaults))}" if defaults else "it has no options"
        raise ArgumentValueError("backend_options", unknown[0], f"the backend {backend!r} has no such option; {known}")
    return {**defaults, **given}
