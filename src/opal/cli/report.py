"""`opal report`: the page of a run."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from opal.cli.arguments import OptionalRunArgument
from opal.records.run_info import chosen_run, read_run_info

Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def report(run: OptionalRunArgument = None, open_page: Open = False) -> None:
    """Build the page of a run, `report.html` in its folder, from what is recorded so far.

    Example:  opal report --open
    """
    folder = chosen_run(run)
    read_run_info(folder)  # what is wrong with a folder is said before the page's libraries load
    from opal.report.page import write_report

    page = write_report(folder.root)
    print(page)
    if open_page and not webbrowser.open(page.as_uri()):
        print("no browser was found: open the file above")
