"""Numbers, mappings and bytes of the caller. Anything else is a TypeError that names the argument."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, NoReturn

_LONGEST = 160  # letters of a value in a message


def shown(value: Any) -> str:
    """A value in words of Python, cut when it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST - 3] + "..."


def refuse(name: str, wanted: str, value: Any) -> NoReturn:
    """Raises the error of a value of another type."""
    raise TypeError(f"{name} takes {wanted}, not {shown(value)}")


def whole(value: Any, name: str) -> int:
    """A whole number of 64 bits, also one of numpy."""
    try:
        number = index(value)
    except TypeError:
        refuse(name, "a whole number", value)
    if not -1 << 63 <= number < 1 << 63:
        raise OverflowError(f"{name} has 64 bits, {shown(number)} has more")
    return number


def real(value: Any, name: str) -> float:
    """A number, also one of numpy."""
    if isinstance(value, (str, bytes, bytearray)):
        refuse(name, "a number", value)
    try:
        return float(value)
    except TypeError:
        refuse(name, "a number", value)


def mapping(value: Any, name: str, wanted: str = "a mapping") -> Mapping[str, Any]:
    """A dict, or another mapping."""
    if not isinstance(value, Mapping):
        refuse(name, wanted, value)
    return value


def items(value: Any, name: str, wanted: str) -> list[Any]:
    """The elements of a list, or of what a loop takes. A text or a mapping is one element, not several."""
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        refuse(name, wanted, value)
    return list(value)


def is_list(value: Any) -> bool:
    """Whether JSON has the value as a list."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def content(value: Any, name: str, wanted: str = "bytes") -> bytes:
    """Bytes, or the memory of a bytearray, a memoryview, an array."""
    try:
        return memoryview(value).tobytes()
    except TypeError:
        refuse(name, wanted, value)


def function(value: Any, name: str, wanted: str = "a function") -> Any:
    """What can be called."""
    if not callable(value):
        refuse(name, wanted, value)
    return value
