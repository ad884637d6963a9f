"""The lines that were appended to a file since it was last looked at."""

from __future__ import annotations

from pathlib import Path


class LineTail:
    """Follows a file that others append to. Looking costs one `stat` when nothing is new.

    A last line without newline is left until it is whole. A file that became shorter was replaced: it is read anew.
    """

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._path = path
        self._offset = self._size() if from_end else 0

    def read(self) -> list[bytes]:
        """The new lines without their newline, empty ones left out."""
        size = self._size()
        if size < self._offset:
            self._offset = 0
        if size == self._offset:
            return []
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        return [line for line in data[:whole].split(b"\n") if line]

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
