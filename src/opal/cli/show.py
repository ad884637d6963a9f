"""`opal show`: what became of every decision of a run."""

from __future__ import annotations

from opal.cli.arguments import JsonOption, OptionalRunArgument
from opal.cli.run_table import print_run


def show(run: OptionalRunArgument = None, as_json: JsonOption = False) -> None:
    """What became of every decision of a run, and where its final program is.

    Marks: "reverted @N" where the program was put back at update N.

    Example:  opal show opal_runs/20261201-101500-4242-3fa9c1
    """
    print_run(run, as_json=as_json)
