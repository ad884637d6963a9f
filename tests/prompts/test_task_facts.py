"""What the person stated becomes sentences; what was not stated is not mentioned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opal.config import RunConfig
from opal.prompts.task_facts import fact_lines

MakeConfig = Callable[..., RunConfig]


def test_without_facts_only_the_length_is_said(make_config: MakeConfig) -> None:
    assert fact_lines(make_config().task) == ["Length: 400 updates."]


def test_numbers_are_said_with_the_updates_of_an_epoch(make_config: MakeConfig) -> None:
    lines = fact_lines(make_config(epochs=2.5, train_size=12_800, batch_size=80, same_order_each_epoch=True).task)
    assert lines == [
        "Length: 400 updates.",
        "Epochs: 2.5, of 160 updates each.",
        "Training examples: 12,800.",
        "Batch size: 80.",
        "The data come in the same order in every epoch.",
    ]


def test_texts_are_given_as_the_person_wrote_them(make_config: MakeConfig) -> None:
    lines = fact_lines(make_config(epochs="about one", batch_size="8 sequences of 128 bytes.").task)
    assert lines[1:] == ["Epochs: about one.", "Batch size: 8 sequences of 128 bytes."]


@pytest.mark.parametrize(
    ("order", "line"),
    [
        (False, "The order of the data differs from epoch to epoch."),
        ("shuffled once", "Order of the data in each epoch: shuffled once."),
    ],
)
def test_the_order_of_the_data_is_said(make_config: MakeConfig, order: object, line: str) -> None:
    assert fact_lines(make_config(same_order_each_epoch=order).task)[-1] == line
