"""Arrays in and out of the library; their elements never change."""
from __future__ import annotations

import ctypes
from typing import Any

from . import _arrays
from ._base import Managed, call, make
from ._lib import lib


class Tensor(Managed):
    """An element type, dimensions and elements in row-major order."""

    _release, noun = "dllm_tensor_release", "tensor"

    def __init__(self, values: Any, dtype: str | None = None):
        super().__init__(_made(values, dtype, "values"))

    @classmethod
    def _of(cls, values: Any, dtype: str, name: str) -> Tensor:
        """Tensor(values, dtype); name is what the caller calls the values."""
        return cls._wrap(_made(values, dtype, name))

    @property
    def dtype(self) -> str:
        """The type of the elements: "f32", "i32", "bf16", ..."""
        return _arrays.NAMES[lib.dllm_tensor_dtype(self.pointer)]

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, outermost first."""
        rank = lib.dllm_tensor_rank(self.pointer)
        return tuple(lib.dllm_tensor_dim(self.pointer, axis) for axis in range(rank))

    def read(self, dtype: str | None = None) -> Any:
        """A copy: a numpy array of the same shape, or nested lists. f16 and bf16 become f32."""
        dtype = self.dtype if dtype is None else dtype
        dtype = "f32" if dtype in ("f16", "bf16") else _arrays.checked_dtype(dtype)
        number, ctype, _ = _arrays.DTYPES[dtype]
        shape, count = self.shape, 1
        for extent in shape:
            count *= extent
        room = (ctype * count)()
        call("dllm_tensor_read", self.pointer, number, room, ctypes.sizeof(room))
        flat = _arrays.from_c(room, dtype, count)
        return flat.reshape(shape) if hasattr(flat, "reshape") else _nest(flat, shape)

    def numpy(self) -> Any:
        """A copy as a numpy array; f16 and bf16 become f32."""
        if _arrays.numpy is None:
            raise ImportError("numpy is not installed: read() returns nested lists")
        return self.read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("a Tensor has no array without a copy: numpy.asarray(tensor.view())")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def view(self) -> Any:
        """The elements without a copy, as a read-only memoryview; valid while this tensor is open."""
        dtype, shape = self.dtype, self.shape
        count = 1
        for extent in shape:
            count *= extent
        address = lib.dllm_tensor_data(self.pointer)
        if dtype not in _arrays.DTYPES or address is None:
            raise TypeError(f"no view of {dtype}: use read()")
        ctype, code = _arrays.DTYPES[dtype][1:]
        block = (ctype * count).from_address(address)
        block._tensor = self  # the view keeps the tensor
        flat: Any = memoryview(block).cast("B")
        flat = flat.cast(code)
        return (flat.cast("B").cast(code, shape) if shape else flat).toreadonly()


def _made(values: Any, dtype: str | None, name: str) -> ctypes.c_void_p:
    dtype = _arrays.checked_dtype(_arrays.guess_dtype(values) if dtype is None else dtype)
    dims, rank = _arrays.dims_of(values)
    return make("dllm_tensor_new", _arrays.DTYPES[dtype][0], dims, rank, _arrays.to_c(values, dtype, name))


def _nest(flat: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return flat
    step = len(flat) // shape[0] if shape[0] else 0
    return [_nest(flat[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]
