"""JSON for the library. What JSON cannot hold is an error that names its place."""
from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from . import _raw, errors
from ._values import refuse, shown

_DEEPEST = 200  # levels of lists and dicts in each other


def encoded(value: Any, name: str = "") -> bytes:
    """A value as JSON. name is what the caller calls it; a mapping has the names of its keys."""
    try:
        return json.dumps(value, default=plain, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        fault = _fault(value, name, ())
        if not fault:
            raise
        raise errors.of(_raw.INVALID_ARGUMENT, fault) from None


def plain(value: Any) -> Any:
    """A number, array or path of another package as JSON has it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for method in ("tolist", "item"):  # of numpy's scalars and arrays
        if hasattr(value, method):
            return getattr(value, method)()
    if hasattr(value, "__index__"):
        return value.__index__()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"JSON cannot hold {shown(value)}")


def _fault(value: Any, place: str, around: tuple[Any, ...]) -> str:
    """What JSON cannot hold, with its place; empty: there is nothing. Raises TypeError for a value of another type.

    around: what the value is in.
    """
    if isinstance(value, str):
        at = next((at for at, letter in enumerate(value, 1) if "\ud800" <= letter <= "\udfff"), 0)
        return f"{place}: a lone surrogate at character {at}" if at else ""
    if isinstance(value, float):
        number = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return "" if math.isfinite(value) else f"{place} is {number}: write a finite number"
    if value is None or isinstance(value, int):
        return ""
    if any(value is outer for outer in around):
        return f"{place or 'the value'} holds itself"
    if len(around) > _DEEPEST:
        return f"{place[:40]}... has more than {_DEEPEST} levels"
    if isinstance(value, dict):
        parts = [(part, f"{place}, {key}" if place else str(key)) for key, part in value.items()]
        parts += [(_name_of(key, place), f"the name {key!r}") for key in value]
    elif isinstance(value, (list, tuple)):
        item = "message" if place == "messages" else f"{place}, item" if place else "item"
        parts = [(part, f"{item} {at}") for at, part in enumerate(value, 1)]
    else:
        return _fault(_plain_at(value, place), place, (*around, value))
    return next(filter(None, (_fault(part, where, (*around, value)) for part, where in parts)), "")


def _plain_at(value: Any, place: str) -> Any:
    try:
        return plain(value)
    except TypeError:
        refuse(place or "the value", "a number, a text, True, False, a list or a dict", value)


def _name_of(key: Any, place: str) -> str:
    """A key of a dict as JSON has it."""
    if not isinstance(key, (str, int, float, type(None))):
        refuse(f"a name in {place}" if place else "a name", "a text", key)
    return str(key)
