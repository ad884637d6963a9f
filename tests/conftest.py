"""What every test needs: one thread, no report processes, and no mistake of OPAL's own that goes unseen."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["OPAL_REPORT"] = "off"


class _Defects(logging.Handler):
    """Collects what the log reports as a mistake of OPAL's own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(autouse=True)
def _no_defect() -> Iterator[None]:
    """A test fails if OPAL caught a mistake of its own; training went on, so nothing else would show it."""
    handler = _Defects()
    logging.getLogger("opal").addHandler(handler)
    yield
    logging.getLogger("opal").removeHandler(handler)
    assert handler.lines == []
