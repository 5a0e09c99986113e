"""Named arrays: token rows, prepared noise, results of a forward pass."""
from __future__ import annotations

from typing import Any, Iterator, Mapping

from . import _arrays
from ._base import Managed, call, make
from ._lib import lib
from ._text import text_bytes
from ._values import mapping, refuse
from .tensor import Tensor

# The element types of the reserved names, for plain lists.
RESERVED = {"ids": "i32", "targets": "i32", "weights": "f32", "segments": "i32",
            "positions": "i32", "sample": "u8", "keep": "u8", "t": "f32", "flag": "u8",
            "prompt_length": "i32", "embeddings": "f32", "rows": "i64"}


class Batch(Managed):
    """`Batch({"ids": [[1, 2], [3, 4]]})`; batch["ids"] is an array (numpy's, else nested lists)."""

    _release, noun = "dllm_batch_release", "batch"

    def __init__(self, arrays: Mapping[str, Any] | None = None):
        given = {} if arrays is None else mapping(arrays, "arrays", "a mapping of names to arrays")
        super().__init__(make("dllm_batch_new"))
        for name, values in given.items():
            self[name] = values

    def set(self, name: str, values: Any, dtype: str | None = None) -> None:
        """Copies an array into the batch; dtype is one of f32 f64 i32 i64 u8 i8 u32."""
        self._set(name, values, dtype, f"values of {name}")

    def _set(self, name: str, values: Any, dtype: str | None, place: str) -> None:
        """place: what the caller calls the values."""
        key = text_bytes(name, "name")
        if dtype is None:
            dtype = RESERVED.get(name) or _arrays.guess_dtype(values)
        number = _arrays.DTYPES[_arrays.checked_dtype(dtype)][0]
        dims, rank = _arrays.dims_of(values)
        call("dllm_batch_set", self.pointer, key, number, dims, rank, _arrays.to_c(values, dtype, place))

    def tensor(self, name: str) -> Tensor:
        """A copy of one array with its type and shape. Raises NotFound; the hint names the nearest."""
        return Tensor._wrap(make("dllm_batch_array", self.pointer, text_bytes(name, "name")))

    def names(self) -> list[str]:
        """The names of the arrays, in the order in which they were set."""
        count = lib.dllm_batch_count(self.pointer)
        return [lib.dllm_batch_name(self.pointer, index).decode() for index in range(count)]

    def __setitem__(self, name: str, values: Any) -> None:
        self.set(name, values)

    def __getitem__(self, name: str) -> Any:
        with self.tensor(name) as tensor:
            return tensor.read()

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return int(lib.dllm_batch_count(self.pointer))


def as_batch(rows: Batch | Mapping[str, Any] | Any) -> Batch:
    """Named arrays as a batch; an array alone is its ids, one row of ids a batch of one."""
    if isinstance(rows, Batch):
        return rows
    if isinstance(rows, Mapping):
        return Batch(rows)
    if isinstance(rows, (str, bytes, bytearray)) or not hasattr(rows, "__len__"):
        refuse("rows", "a dllm.Batch, named arrays or rows of ids", rows)
    made = Batch()
    made._set("ids", rows if len(_arrays.shape_of(rows)) > 1 else [rows], None, "rows")
    return made
