"""Lists and arrays as arguments and results: numpy arrays when numpy is installed, else lists."""
from __future__ import annotations

import array
import ctypes
from ctypes import POINTER, byref, c_int64
from collections.abc import Mapping, Set
from typing import Any, Tuple

from . import _raw
from ._base import call, check
from ._lib import lib
from ._text import text_bytes
from ._values import refuse, shown
from .errors import thread_error

try:
    import numpy as _numpy
    numpy: Any = _numpy
except ImportError:
    numpy = None

# dtype: (constant, ctypes type, code of array.array); f16 and bf16 have no list form.
DTYPES: dict[str, Tuple[int, Any, str]] = {
    "f32": (_raw.F32, ctypes.c_float, "f"), "f64": (_raw.F64, ctypes.c_double, "d"),
    "i32": (_raw.I32, ctypes.c_int32, "i"), "i64": (_raw.I64, ctypes.c_int64, "q"),
    "u8": (_raw.U8, ctypes.c_uint8, "B"), "i8": (_raw.I8, ctypes.c_int8, "b"),
    "u32": (_raw.U32, ctypes.c_uint32, "I"),
}
NAMES = {number: name for name, (number, _, _) in DTYPES.items()}
NAMES.update({_raw.F16: "f16", _raw.BF16: "bf16"})
_NUMPY = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8",
          "i8": "int8", "u32": "uint32"}


def checked_dtype(dtype: str) -> str:
    """The name of a type of elements. Raises ValueError for another name, TypeError for another value."""
    text_bytes(dtype, "dtype")
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
    return dtype


def shape_of(values: Any) -> tuple[int, ...]:
    """Dimensions of an array or of nested lists; ragged lists raise ValueError."""
    if hasattr(values, "shape"):
        return tuple(int(extent) for extent in values.shape)
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        return ()
    inner = {shape_of(value) for value in values}
    if len(inner) > 1:
        raise ValueError(f"rows of different shapes: {', '.join(map(str, sorted(inner)))}")
    return (len(values),) + (inner.pop() if inner else ())


def _flat(values: Any, rank: int) -> list[Any]:
    if rank == 0:
        return [values]
    if rank == 1:
        return list(values)
    return [number for row in values for number in _flat(row, rank - 1)]


def guess_dtype(values: Any) -> str:
    """The dtype of an array, else i32 for whole numbers and f32 for others."""
    name = str(getattr(values, "dtype", ""))
    for dtype, numpy_name in _NUMPY.items():
        if name == numpy_name:
            return dtype
    if name == "bool":
        return "u8"
    flat = _flat(values, len(shape_of(values)))
    return "i32" if all(isinstance(number, int) for number in flat) else "f32"


def to_c(values: Any, dtype: str, name: str = "values") -> ctypes.Array[Any]:
    """A C array of the values; a value that does not fit raises OverflowError or TypeError, with the name."""
    _, ctype, code = DTYPES[dtype]
    made: ctypes.Array[Any]
    if numpy is not None and isinstance(values, numpy.ndarray):
        if values.dtype.kind in "SUMm":  # texts and times
            raise TypeError(f"{name} takes numbers, not an array of {values.dtype}")
        try:
            fitting = numpy.ascontiguousarray(values, dtype=_NUMPY[dtype])
        except (TypeError, ValueError) as problem:
            raise TypeError(f"{name} takes numbers: {problem}") from None
        if fitting.dtype.kind in "iu" and not numpy.array_equal(fitting, values):
            raise OverflowError(f"{name}: values of {values.dtype} do not fit {dtype}")
        made = (ctype * fitting.size).from_buffer_copy(fitting)
        return made
    if isinstance(values, (Mapping, Set)):
        refuse(name, "a list or an array", values)
    elements = _flat(values, len(shape_of(values)))
    try:
        flat = array.array(code, elements)
    except (TypeError, OverflowError):
        _refuse_element(elements, code, name, dtype)
        raise
    made = (ctype * len(flat)).from_buffer_copy(flat)
    return made


def _refuse_element(elements: list[Any], code: str, name: str, dtype: str) -> None:
    """Raises the error of the first element that does not fit."""
    for at, element in enumerate(elements, 1):
        place = name if len(elements) == 1 and at == 1 else f"{name}, item {at}"
        try:
            array.array(code, [element])
        except TypeError:
            refuse(place, "a number" if code in "fd" else "a whole number", element)
        except OverflowError:
            raise OverflowError(f"{place}: {shown(element)} does not fit {dtype}") from None


def list_to_c(values: Any, dtype: str, name: str) -> ctypes.Array[Any]:
    """As to_c, for a list or an array alone: a number in its place is a TypeError."""
    if isinstance(values, (str, bytes, bytearray)) or not hasattr(values, "__len__") or shape_of(values) == ():
        refuse(name, "a list or an array of " + ("numbers" if dtype[0] == "f" else "whole numbers"), values)
    return to_c(values, dtype, name)


def from_c(pointer: Any, dtype: str, count: int) -> Any:
    """A copy of `count` elements: a numpy array when numpy is there, else a list."""
    ctype = DTYPES[dtype][1]
    if numpy is None:
        return list(ctypes.cast(pointer, POINTER(ctype))[:count]) if count else []
    out = numpy.empty(count, _NUMPY[dtype])
    if count:
        ctypes.memmove(out.ctypes.data, pointer, out.nbytes)
    return out


def ask(name: str, dtype: str, *args: Any) -> Any:
    """Calls a function with `dst, dst_count, out_count, err` last: first for the count, then with room."""
    ctype, count = DTYPES[dtype][1], c_int64()
    function = getattr(lib, name)
    status = function(*args, None, 0, byref(count), thread_error())
    if status not in (_raw.OK, _raw.OUT_OF_RANGE):
        check(status)
    room = (ctype * count.value)()
    call(name, *args, room, count.value, byref(count))
    return from_c(room, dtype, count.value)


def dims_of(values: Any) -> tuple[ctypes.Array[Any], int]:
    shape = shape_of(values)
    return (c_int64 * len(shape))(*shape), len(shape)
