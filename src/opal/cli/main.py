"""`opal`: where the command line begins, and where errors become a sentence."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opal.errors import OpalError


def run() -> None:
    """The entry point: a wrong folder, argument or installation is one sentence on stderr and exit 2."""
    try:
        if not _show_at_once(sys.argv[1:]):
            from opal.cli.commands import app

            app(prog_name="opal")
    except OpalError as error:
        print(f"opal: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _show_at_once(arguments: list[str]) -> bool:
    """`opal show [RUN] [--json]` without the library for command lines, which takes longer to load than the answer."""
    if arguments[:1] != ["show"]:
        return False
    runs = [argument for argument in arguments[1:] if argument != "--json"]
    if len(runs) > 1 or any(run.startswith("-") for run in runs):
        return False
    from opal.cli.run_table import print_run

    print_run(Path(runs[0]) if runs else None, as_json="--json" in arguments)
    return True


if __name__ == "__main__":
    run()
