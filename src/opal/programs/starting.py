"""The files of the starting program, `v000`."""

from __future__ import annotations

from importlib import resources

from opal.programs.contract import ANALYSIS, UPDATER, ProgramFiles, program_from_texts

STARTING_VERSION = "v000"
_EVERY_LINE = "EVERY = 50\n"


def starting_program(every: int) -> ProgramFiles:
    """The program that calls the script's optimizers unchanged, with an analysis every `every` updates."""
    here = resources.files("opal.programs")
    updater = here.joinpath("starting_updater.py").read_text(encoding="utf-8")
    analysis = here.joinpath("starting_analysis.py").read_text(encoding="utf-8")
    if analysis.count(_EVERY_LINE) != 1:
        raise AssertionError(f"starting_analysis.py must hold the line {_EVERY_LINE!r} once")
    return program_from_texts({UPDATER: updater, ANALYSIS: analysis.replace(_EVERY_LINE, f"EVERY = {every}\n")})
