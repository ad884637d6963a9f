"""Which files are a program, and the rules that they keep.

A program is `updater.py`, `analysis.py`, and every module that these import from the workspace.
"""

from __future__ import annotations

import ast
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opal.errors import ProgramFileError

UPDATER = "updater.py"
ANALYSIS = "analysis.py"
MAX_FILES = 64
MAX_BYTES = 1 << 20

# Hiding one of these would change what every other import of it means to the reader of a program.
_PROTECTED = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "opal"}


@dataclass(frozen=True, kw_only=True)
class ProgramFiles:
    """The texts of a program by path (with `/`), and which of them belong to each side."""

    texts: Mapping[str, str]
    updater: frozenset[str]
    analysis: frozenset[str]

    def digest(self, side: frozenset[str]) -> str:
        """SHA-256 over the paths and texts of one side."""
        digest = hashlib.sha256()
        for path in sorted(side):
            digest.update(f"{path}\0{len(self.texts[path])}\0{self.texts[path]}".encode())
        return digest.hexdigest()

    def same_updater(self, other: ProgramFiles) -> bool:
        """Whether the updater, with all that it imports, is the same in both."""
        return self.digest(self.updater) == other.digest(other.updater)

    def same_analysis(self, other: ProgramFiles) -> bool:
        """Whether the analysis, with all that it imports, is the same in both."""
        return self.digest(self.analysis) == other.digest(other.analysis)

    def same(self, other: ProgramFiles) -> bool:
        """Whether both sides are the same."""
        return self.same_updater(other) and self.same_analysis(other)


def read_program(workspace: Path) -> ProgramFiles:
    """Read the program that lies in a workspace.

    Raises:
        ProgramFileError: a file is missing, is no regular UTF-8 file inside the workspace, is too large, hides one of
            Python's modules, or there are too many of them.
    """
    texts: dict[str, str] = {}
    sides = [_closure(workspace, start, texts) for start in (UPDATER, ANALYSIS)]
    return ProgramFiles(texts=texts, updater=frozenset(sides[0]), analysis=frozenset(sides[1]))


def program_from_texts(texts: Mapping[str, str]) -> ProgramFiles:
    """Take a program from texts that kept the rules when they were read."""
    found = {path: path for path in texts}
    sides = []
    for start in (UPDATER, ANALYSIS):
        side, todo = {start}, [start]
        while todo:
            path = todo.pop()
            new = {found[name] for name in _imports(path, texts[path], found.__contains__)} - side
            side |= new
            todo += sorted(new)
        sides.append(frozenset(side))
    return ProgramFiles(texts=dict(texts), updater=sides[0], analysis=sides[1])


def _closure(workspace: Path, start: str, texts: dict[str, str]) -> set[str]:
    """The paths that `start` reaches by imports, itself included; their texts are added to `texts`."""
    side, todo = {start}, [start]
    while todo:
        path = todo.pop()
        if path not in texts:
            if len(texts) >= MAX_FILES:
                raise ProgramFileError(f"the program has more than {MAX_FILES} files; merge some", where=path)
            texts[path] = _read_file(workspace, path)
        reached = _imports(path, texts[path], lambda name: os.path.lexists(workspace / name))
        new = set(reached) - side
        side |= new
        todo += sorted(new)
    return side


def _read_file(workspace: Path, path: str) -> str:
    """The text of a regular file inside the workspace; never blocks on a pipe, never follows a link."""
    full = workspace / path
    if os.path.realpath(full.parent) != os.path.join(os.path.realpath(workspace), *Path(path).parent.parts):
        raise ProgramFileError("lies behind a link; program files lie in the workspace itself", where=path)
    try:
        handle = os.open(full, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise ProgramFileError("is missing; a program needs this file", where=path) from None
    except OSError as error:
        reason = "is a link" if full.is_symlink() else f"cannot be read ({error.strerror})"
        raise ProgramFileError(f"{reason}; program files are regular files", where=path) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ProgramFileError("is no regular file; write it as an ordinary text file", where=path)
    with os.fdopen(handle, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ProgramFileError(f"is larger than {MAX_BYTES >> 20} MiB; make it smaller", where=path)
    if b"\0" in data:
        raise ProgramFileError("holds a null byte; save it as text", where=path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProgramFileError(f"is not UTF-8 (byte {error.start}); save it as UTF-8", where=path) from None


def _imports(path: str, text: str, exists: Callable[[str], bool]) -> list[str]:
    """The workspace files that one file imports. One that does not parse imports nothing; loading says why."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    package = Path(path).parent.parts
    reached: list[str] = []
    for parts, names in _imported_names(tree, package):
        for depth in range(1, len(parts) + 1):
            reached += _module_files(parts[:depth], exists)
        for name in names:
            reached += _module_files((*parts, name), exists)
    for file in reached:
        top = file.split("/")[0].removesuffix(".py")
        if top in _PROTECTED:
            raise ProgramFileError(f"hides the module {top!r}; give it another name", where=file)
    return reached


def _imported_names(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """(module as parts below the workspace, names taken from it) for each import."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split(".")), []
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            yield (*base, *(node.module.split(".") if node.module else ())), [alias.name for alias in node.names]


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, also nested ones; expressions, which are most of a tree, are passed by."""
    todo = [tree]
    while todo:
        node = todo.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, field, ())
            todo += below if isinstance(below, list) else ()
        yield node


def _module_files(parts: tuple[str, ...], exists: Callable[[str], bool]) -> list[str]:
    """The files that make up one module, as far as they exist: `a/b.py`, or `a/b/__init__.py`."""
    if not parts:
        return []
    stem = "/".join(parts)
    return [file for file in (f"{stem}/__init__.py", f"{stem}.py") if exists(file)][:1]
