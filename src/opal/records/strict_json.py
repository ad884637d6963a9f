"""Strict JSON for any value: numbers that are not finite become texts such as "NaN", unknown objects their `repr`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import msgspec

LONGEST_REPR = 400
LARGEST_ARRAY = 10_000
DEEPEST = 100

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(value: Any) -> bytes:
    """One line of strict JSON in UTF-8.

    Arrays and tensors become lists, keys become strings, typed records become objects. Nothing raises: an object that
    JSON does not have, an array of more than 10,000 numbers, a container inside itself, and what is nested deeper than
    100 levels become their `repr`, cut to 400 characters.
    """
    try:
        return _encode(value, ())
    except Exception:  # such as a dict that another thread changes at this moment
        return _text(_cut_repr(value))


def decode(data: bytes | str) -> Any:
    """The value of a line that `encode` made; the three texts for numbers that are not finite are numbers again.

    Raises:
        ValueError: it is no JSON.
    """
    return restore(msgspec.json.decode(data))


def restore(value: Any) -> Any:
    """`value` with "NaN", "Infinity" and "-Infinity" as numbers, at any depth."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, list):
        return [restore(item) for item in value]
    if isinstance(value, dict):
        return {key: restore(item) for key, item in value.items()}
    return value


def _encode(value: Any, above: tuple[int, ...]) -> bytes:
    """Hand the value to the fast encoder; where it cannot, or left a null that may be a NaN, go one level down.

    `above` holds the identities of the containers around the value.
    """
    try:
        data = _FAST.encode(value)
    except Exception:
        data = b""
    if data and b"null" not in data:
        return data
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return data or _text(value)
    if value is None or isinstance(value, bytes | bytearray):
        return data
    if isinstance(value, int):
        return _FAST.encode(int(value))
    if id(value) in above or len(above) == DEEPEST:
        return _text(_cut_repr(value))
    return _encode_parts(value, (*above, id(value)))


def _encode_parts(value: Any, above: tuple[int, ...]) -> bytes:
    items = _items(value)
    if isinstance(items, Mapping):
        pairs = (_text(_key(key)) + b":" + _encode(item, above) for key, item in items.items())
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(items, list | tuple):
        return b"[" + b",".join([_encode(item, above) for item in items]) + b"]"
    return _encode(items, above)


def _items(value: Any) -> Any:
    """The value as a dict, a list, or something simpler than it was."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {config.tag_field: config.tag, **fields} if config.tag_field else fields
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping | list | tuple):
        return value
    if isinstance(value, set | frozenset):
        return list(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    """Numbers of an array or tensor, found by its methods so that no import of torch is needed; else the `repr`."""
    convert = getattr(value, "tolist", None)
    if callable(convert) and not isinstance(value, type):
        try:
            if _size(value) <= LARGEST_ARRAY:
                plain = convert()
                if isinstance(plain, bool | int | float | str | list):
                    return plain
        except Exception:  # such as a sparse tensor, which has no list
            return _cut_repr(value)
    if isinstance(value, float):
        return float(value)
    return _cut_repr(value)


def _size(array: Any) -> int:
    count = getattr(array, "numel", None)
    return int(count()) if callable(count) else int(getattr(array, "size", 1))


def _float(value: float) -> bytes:
    number = float(value)
    if math.isfinite(number):
        return _FAST.encode(number)
    return b'"NaN"' if math.isnan(number) else (b'"Infinity"' if number > 0 else b'"-Infinity"')


def _text(text: str) -> bytes:
    return _FAST.encode(text.encode("utf-8", "replace").decode())


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(_cut_repr(key))


def _cut_repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 3] + "..."


_FAST = msgspec.json.Encoder(enc_hook=_plain)
