"""Batches of a dataset, in a reproducible order."""
from __future__ import annotations

from typing import Any, Iterator

from ._base import Managed, call, handle, make, options
from ._lib import lib
from ._values import whole
from .batch import Batch
from .dataset import Dataset
from .errors import OutOfRange


class Loader(Managed):
    """`for batch in Loader(data, batch=8, length=128)`; keywords are the options of kind "loader"."""

    _release, noun = "dllm_loader_release", "loader"

    def __init__(self, data: Dataset, **settings: Any):
        with options("loader", settings) as opts:
            super().__init__(make("dllm_loader_new", handle(data, Dataset, "data"), opts.pointer))

    def next(self) -> Batch:
        """The next batch; raises OutOfRange at the end of the data."""
        return Batch._wrap(make("dllm_loader_next", self.pointer))

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        try:
            return self.next()
        except OutOfRange:
            raise StopIteration from None

    @property
    def position(self) -> int:
        """How many rows were read since the start, over all epochs and ranks."""
        return int(lib.dllm_loader_position(self.pointer))

    def seek(self, position: int) -> None:
        """Goes to a position, in rows since the start. Raises OutOfRange past the end."""
        call("dllm_loader_seek", self.pointer, whole(position, "position"))
