"""JSON for the library. What JSON cannot hold is an error that names its place."""
from __future__ import annotations

import json
import math
import os
from typing import Any, Mapping

from . import _raw, errors


def encoded(value: Any, name: str = "") -> bytes:
    """A value as JSON. name is what the caller calls it; a mapping has the names of its keys."""
    try:
        return json.dumps(value, default=plain, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        fault = _fault(value, name)
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
    raise TypeError(f"an option cannot be a {type(value).__name__}: {value!r}")


def _fault(value: Any, place: str) -> str:
    """What JSON cannot hold, with its place; empty: there is nothing."""
    if isinstance(value, str):
        at = next((at for at, letter in enumerate(value, 1) if "\ud800" <= letter <= "\udfff"), 0)
        return f"{place}: a lone surrogate at character {at}" if at else ""
    if isinstance(value, float):
        shown = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return "" if math.isfinite(value) else f"{place} is {shown}: write a finite number"
    if isinstance(value, Mapping):
        parts = [(part, f"{place}, {key}" if place else str(key)) for key, part in value.items()]
        parts += [(key, f"the name {key!r}") for key in value]
    elif isinstance(value, (list, tuple)):
        item = "message" if place == "messages" else f"{place}, item" if place else "item"
        parts = [(part, f"{item} {at}") for at, part in enumerate(value, 1)]
    elif value is None or isinstance(value, int):
        return ""
    else:
        return _fault(plain(value), place)
    return next(filter(None, (_fault(part, where) for part, where in parts)), "")
