"""Templates of a person's own: fields are checked at wrap, and named when they are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opal.config import RunConfig
from opal.errors import ArgumentValueError
from opal.prompts.system_prompt import check_template, render_system_prompt
from opal.prompts.templates import OPTIONAL, REQUIRED, load_template
from opal.types import RunFacts

MakeConfig = Callable[..., RunConfig]
ALL_REQUIRED = "\n".join(f"{{{name}}}" for name in REQUIRED)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    def write_template(text: str) -> str:
        path = tmp_path / "template.md"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write_template


def test_an_own_template_is_filled(make_config: MakeConfig, gpt_facts: RunFacts, write: Callable[[str], str]) -> None:
    text = "Mine: {goal} {{as it is}}\n{task_facts}{run_facts}{protocol}{failures}"
    text += "{updater_interface}{analysis_interface}{parameters}"
    prompt = render_system_prompt(make_config(prompt=write(text), goal="fit {this} well"), gpt_facts)
    assert prompt.startswith("Mine: fit {this} well {as it is}\n")
    assert "blocks.N.attention.qkv.weight" in prompt


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_required_field_is_named(make_config: MakeConfig, write: Callable[[str], str], name: str) -> None:
    with pytest.raises(ArgumentValueError, match=rf"lacks \{{{name}\}}"):
        check_template(make_config(prompt=write(ALL_REQUIRED.replace(f"{{{name}}}", ""))))


@pytest.mark.parametrize("field", ["ranks", "", "0", "goal.upper", "goal!r", "goal:>9"])
def test_an_unknown_field_is_named_with_the_known_ones(
    make_config: MakeConfig, write: Callable[[str], str], field: str
) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        check_template(make_config(prompt=write(ALL_REQUIRED + "{" + field + "}")))
    assert caught.value.argument == "prompt"
    assert "{" + field + "}" in str(caught.value)
    assert all(name in str(caught.value) for name in OPTIONAL)


def test_a_lone_brace_is_explained(make_config: MakeConfig, write: Callable[[str], str]) -> None:
    with pytest.raises(ArgumentValueError, match=r"write \{\{ and \}\}"):
        check_template(make_config(prompt=write(ALL_REQUIRED + "\nreturn {")))


def test_a_template_that_is_no_text_is_refused(make_config: MakeConfig, tmp_path: Path) -> None:
    path = tmp_path / "template.md"
    path.write_bytes(b"\xff\xfe{goal}")
    with pytest.raises(ArgumentValueError, match="cannot be read as UTF-8"):
        check_template(make_config(prompt=str(path)))


def test_a_template_without_the_validation_note_is_refused_where_validation_is_given(
    make_config: MakeConfig, write: Callable[[str], str]
) -> None:
    import dataclasses

    config = make_config(prompt=write(ALL_REQUIRED))
    check_template(config)
    with_validation = dataclasses.replace(config, task=dataclasses.replace(config.task, validation=100))
    with pytest.raises(ArgumentValueError, match=r"lacks \{validation_note\}; validation is given"):
        check_template(with_validation)


@pytest.mark.parametrize("prompt", ["neutral", "aggressive"])
def test_the_templates_of_the_package_have_every_field(make_config: MakeConfig, prompt: str) -> None:
    text = load_template(make_config(prompt=prompt))
    assert all(text.count(f"{{{name}}}") == 1 for name in REQUIRED + OPTIONAL)
