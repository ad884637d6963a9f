"""System prompt templates: the two that come with OPAL, and a person's own.

A template is a text with fields `{name}` as in `str.format`; `{{` and `}}` are braces. `REQUIRED` lists the fields that
every template has, `OPTIONAL` those that it may have. `{validation_note}` is required where `validation` is given.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any

import jinja2

from opal.config import RunConfig
from opal.errors import ArgumentValueError

REQUIRED = ("goal", "task_facts", "run_facts", "protocol", "failures", "updater_interface", "analysis_interface",
            "parameters")  # fmt: skip
OPTIONAL = ("scope", "kit", "efficiency", "directions", "model", "validation_note")
BUILT_IN = ("neutral", "aggressive")

_TEXT = Path(__file__).parent / "text"


def load_template(config: RunConfig) -> str:
    """The text of `config.agent.prompt`, with its fields checked.

    Raises:
        ArgumentValueError: the file cannot be read, a required field is missing, or a field is unknown.
    """
    prompt = config.agent.prompt
    path = _TEXT / f"{prompt}.md" if prompt in BUILT_IN else Path(prompt)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentValueError("prompt", prompt, f"the template cannot be read as UTF-8 text ({error})") from None
    _check_fields(prompt, text, validation=config.task.validation is not None)
    return text


def check_template(config: RunConfig) -> None:
    """Raise ArgumentValueError where the template of `config` could not be filled; called at `wrap`."""
    load_template(config)


def render(name: str, **values: Any) -> str:
    """A template of this package's `text` folder, filled; every value that it uses must be given."""
    return _environment().get_template(name).render(**values).strip("\n")


def _check_fields(prompt: str, text: str, *, validation: bool) -> None:
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        allowed = f"the template's braces do not match ({error}); write {{{{ and }}}} for braces that are text"
        raise ArgumentValueError("prompt", prompt, allowed) from None
    fields = set()
    for _, field, spec, conversion in parts:
        if field is None:
            continue
        if field not in REQUIRED + OPTIONAL or spec or conversion:
            shown = field + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            known = ", ".join(REQUIRED + OPTIONAL)
            allowed = (
                f"its field {{{shown}}} is unknown; known are {known}; write {{{{ and }}}} for braces that are text"
            )
            raise ArgumentValueError("prompt", prompt, allowed)
        fields.add(field)
    required = REQUIRED + (("validation_note",) if validation else ())
    missing = [name for name in required if name not in fields]
    if missing:
        names = ", ".join(f"{{{name}}}" for name in missing)
        why = "; validation is given, so the agent must be told of it" if missing == ["validation_note"] else ""
        raise ArgumentValueError("prompt", prompt, f"the template lacks {names}{why}; add each field once")


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEXT),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
