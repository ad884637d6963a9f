"""Any value becomes strict JSON, and numbers that are not finite come back."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opal.records.events import CheckRecord, DecisionAsked
from opal.records.strict_json import LARGEST_ARRAY, decode, encode


def strict(data: bytes) -> Any:
    """Parse as a reader would that knows no NaN."""

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no strict JSON")

    return json.loads(data, parse_constant=refuse)


NUMBERS = ("NaN", "Infinity", "-Infinity")
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text().filter(lambda text: text not in NUMBERS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(plain_values)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    def same(left: Any, right: Any) -> bool:
        if isinstance(left, float) and isinstance(right, float):
            return left == right or (math.isnan(left) and math.isnan(right))
        if isinstance(left, list):
            return len(left) == len(right) and all(map(same, left, right))
        if isinstance(left, dict):
            return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
        return type(left) is type(right) and left == right

    data = encode(value)
    strict(data)
    assert b"\n" not in data
    assert same(value, decode(data))


def test_numbers_that_are_not_finite_become_texts_and_numbers_again() -> None:
    value = {"a": [1.5, math.nan, None], "b": (math.inf, {"c": -math.inf}), "d": "null"}
    assert strict(encode(value)) == {"a": [1.5, "NaN", None], "b": ["Infinity", {"c": "-Infinity"}], "d": "null"}
    back = decode(encode(value))
    assert math.isnan(back["a"][1])
    assert back["b"] == [math.inf, {"c": -math.inf}]


def test_records_keep_their_fields_and_their_kind() -> None:
    asked = DecisionAsked(time=math.nan, update=3, decision=1, reasons=("scheduled",), waits=True)
    assert strict(encode(asked)) == {
        "kind": "decision_asked",
        "time": "NaN",
        "update": 3,
        "decision": 1,
        "reasons": ["scheduled"],
        "waits": True,
    }
    check = CheckRecord(update=2, first=1, values=(math.nan, None))
    assert strict(encode(check))["values"] == ["NaN", None]


@dataclasses.dataclass
class Point:
    x: float
    y: Any


class Colour(enum.Enum):
    RED = "red"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Point(math.nan, None), {"x": "NaN", "y": None}),
        (np.float64(2.5), 2.5),
        (np.float64("nan"), "NaN"),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([1.0, math.inf]), [1.0, "Infinity"]),
        (torch.tensor(1.5), 1.5),
        (torch.tensor([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (torch.tensor(math.nan, requires_grad=True), "NaN"),
        ({1: 2, (3, 4): None}, {"1": 2, "(3, 4)": None}),
        (Colour.RED, "red"),
        (1 + 2j, "(1+2j)"),
        (torch.float32, "torch.float32"),
        (Broken(), "<Broken>"),
        ("a\ud800b", "a?b"),
        ({"\ud800": None}, {"?": None}),
        (True, True),
    ],
)
def test_values_that_json_does_not_have(value: Any, expected: Any) -> None:
    assert strict(encode(value)) == expected
    assert strict(encode([None, value])) == [None, expected]


def test_what_is_long_is_cut() -> None:
    text = strict(encode({"big": np.zeros(LARGEST_ARRAY + 1), "lock": threading.Lock(), "none": None}))
    assert isinstance(text["big"], str)
    assert text["lock"].startswith("<unlocked")
    assert len(strict(encode(type("Long", (), {"__repr__": lambda _: "x" * 9000})()))) == 400


def test_what_contains_itself_and_what_is_very_deep_ends() -> None:
    loop: list[Any] = [None]
    loop += [loop, loop]
    assert strict(encode(loop))[0] is None
    deep: Any = None
    for _ in range(5000):
        deep = [deep]
    strict(encode(deep))
