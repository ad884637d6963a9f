"""An exception of a program becomes a `Failure`: file, line, the program's part of the traceback."""

from __future__ import annotations

import traceback

from opal.types import Failure, Stage, Undone

_MAX_TRACEBACK = 4000
_MAX_MESSAGE = 600
_NO_PROGRAM = "\0"  # begins no file name: a file that breaks a rule never ran


def describe_failure(
    error: BaseException,
    *,
    version: str,
    version_in_traceback: str,
    stage: Stage,
    update: int,
    undone: Undone,
    goes_on_with: str,
) -> Failure:
    """Say where in a program an exception came from. Its modules may carry the name of an earlier version."""
    file, line = _place(error, version_in_traceback)
    return Failure(
        version=version,
        stage=stage,
        update=update,
        error=type(error).__name__,
        message=_text(error)[:_MAX_MESSAGE],
        file=file,
        line=line,
        traceback=_program_traceback(error, version_in_traceback),
        undone=undone,
        goes_on_with=goes_on_with,
    )


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return str(error.msg)
    try:
        return str(error)
    except Exception:
        return "(its text cannot be shown)"


def _place(error: BaseException, version: str) -> tuple[str | None, int | None]:
    """File (below the workspace) and line of the innermost frame inside the program."""
    prefix = f"{version}/" if version else _NO_PROGRAM
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(prefix):
        return error.filename.removeprefix(prefix), error.lineno
    place: tuple[str | None, int | None] = (None, None)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(prefix):
            place = frame.f_code.co_filename.removeprefix(prefix), line
    where = getattr(error, "where", "")
    if place[0] is None and where:
        file, _, number = where.partition(":")
        return file, int(number) if number.isdigit() else None
    return place


def _program_traceback(error: BaseException, version: str) -> str:
    """The traceback from the first frame inside the program on, cut in the middle where it is long."""
    if not version:
        return ""
    start = error.__traceback__
    while start is not None and not start.tb_frame.f_code.co_filename.startswith(f"{version}/"):
        start = start.tb_next
    try:
        lines = traceback.TracebackException(type(error), error, start, limit=-24, compact=True).format(chain=False)
        text = "".join(lines)
    except Exception:
        text = f"{type(error).__name__}: (the traceback cannot be shown)"
    if len(text) <= _MAX_TRACEBACK:
        return text
    return f"{text[: _MAX_TRACEBACK // 2]}\n  …\n{text[-_MAX_TRACEBACK // 2 :]}"
