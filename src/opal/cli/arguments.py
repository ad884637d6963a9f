"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

RunArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a file in it.")]
OptionalRunArgument: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="RUN", help="A run folder, or a file in it. Without it: the latest run in ./opal_runs."),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print strict JSON.")]
