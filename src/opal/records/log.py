"""What a person reads while a run goes on: lines of the logger `opal`, each beginning with `opal:`."""

from __future__ import annotations

import logging
import sys

_logger = logging.getLogger("opal")


def open_log() -> None:
    """Let the lines reach stderr, unless the script has set up logging itself."""
    if not _logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        _logger.addHandler(handler)
    if _logger.level == logging.NOTSET:
        _logger.setLevel(logging.INFO)


def inform(text: str) -> None:
    """One line of what happened."""
    _logger.info("opal: %s", text)


def warn(text: str) -> None:
    """One line of what needs attention."""
    _logger.warning("opal: %s", text)


def defect(text: str) -> None:
    """A mistake of OPAL's own, with the traceback of the exception in progress."""
    _logger.error("opal: %s", text, exc_info=True)
