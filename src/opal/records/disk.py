"""How bytes reach the disk: appended lines, files that are replaced whole, folders that appear whole."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

_NAMES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is as large as it may get",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "permission is missing",
    errno.EPERM: "permission is missing",
    errno.ENOENT: "it is not there",
    errno.ENOTDIR: "a file is in the place of a folder",
    errno.EISDIR: "a folder is in the place of a file",
    errno.EIO: "the disk fails",
    errno.ESTALE: "the network disk is gone",
}


def fault_name(error: OSError) -> str:
    """What went wrong, in words that a person reads."""
    return _NAMES.get(error.errno or 0, error.strerror or type(error).__name__)


def append(path: Path, data: bytes) -> None:
    """Append whole lines to a file, which is made with its folder where it is missing.

    A torn last line gets its newline first; when it fails, the file is as long as before.

    Raises:
        OSError: nothing was appended.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            data = b"\n" + data
        try:
            write_all(file, data)
        except OSError:
            with suppress(OSError):  # a device has no length
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def write_all(file: int, data: bytes) -> None:
    """Write everything, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def replace(path: Path, data: bytes) -> None:
    """Put a whole file in the place of another one: nobody sees half of it.

    Raises:
        OSError: the old file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder with these files (keys are relative paths), which appears whole; one that is there is replaced.

    Raises:
        OSError: the folder is not there, or as it was.
        ValueError: a path leaves the folder.
    """
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise ValueError(f"{name!r} is no path below the folder")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, data in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if folder.is_dir():
            shutil.rmtree(folder)
        os.replace(temporary, folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
