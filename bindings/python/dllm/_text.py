"""Texts and paths as the library takes them. Anything else is a TypeError that names the argument."""
from __future__ import annotations

import os

from ._values import refuse, shown


def text_bytes(value: str, name: str, instead: str = "") -> bytes:
    """A text in UTF-8. name is what the caller calls the argument; instead: what takes other values."""
    if not isinstance(value, str):
        raise TypeError(f"{name} takes a text, not {shown(value)}{instead and ': '}{instead}")
    if "\0" in value:
        raise ValueError(f"{name} has a zero byte")
    return value.encode()


def path_bytes(value: str | os.PathLike[str], name: str = "path") -> bytes:
    """A path, or the name of a model in its place."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        refuse(name, "a text or a path", value)
    path = os.fsencode(value)
    if b"\0" in path:
        raise ValueError(f"{name} has a zero byte")
    return path
