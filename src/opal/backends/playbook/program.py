"""The playbook's `updater.py`: constants in front, the same code behind."""

from __future__ import annotations

from importlib import resources

from opal.backends.playbook.rules import Settings

_CONSTANTS = "# <constants>\n"


def program_text(settings: Settings) -> str:
    """The program for these settings."""
    template = resources.files("opal.backends.playbook").joinpath("updater.txt").read_text(encoding="utf-8")
    factors = "".join(f"    {role!r}: {factor:g},\n" for role, factor in sorted(settings.factors.items()))
    constants = (
        f"MUON_RATE = {settings.muon_rate:g}  # peak rate of hidden matrices\n"
        f"COOLDOWN = {settings.cooldown:g}  # share of the run over which rates go to zero, at the latest\n"
        f"MAX_NORM = {settings.max_norm!r}  # largest global norm of the gradients\n"
        f"FACTORS = {{  # role: factor on its rate\n{factors}}}\n"
    )
    if template.count(_CONSTANTS) != 1:
        raise AssertionError("updater.txt must hold the line for the constants once")
    return template.replace(_CONSTANTS, constants)
