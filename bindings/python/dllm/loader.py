"""Batches of a dataset, in a reproducible order."""
from __future__ import annotations

import os
from ctypes import byref, c_int64
from typing import Any, Iterator

from ._base import Managed, call, handle, make, options, task_of
from ._lib import lib
from ._text import path_bytes
from ._values import whole
from .batch import Batch
from .dataset import Dataset
from .errors import OutOfRange
from .model import Model
from .task import Task


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

    def write_anchors(self, teacher: Model, path: str | os.PathLike[str], task: Task | None = None, **settings: Any) -> int:
        """Writes what a teacher computes from the rows of one epoch to a folder, and returns the number of new chunks; options
        of kind "anchors"."""
        chunks = c_int64()
        with options("anchors", settings) as opts:
            call("dllm_loader_write_anchors", self.pointer, handle(teacher, Model, "teacher"), path_bytes(path), opts.pointer,
                 task_of(task), byref(chunks))
        return chunks.value

    @property
    def position(self) -> int:
        """How many rows were read since the start, over all epochs and ranks."""
        return int(lib.dllm_loader_position(self.pointer))

    def seek(self, position: int) -> None:
        """Goes to a position, in rows since the start. Raises OutOfRange past the end."""
        call("dllm_loader_seek", self.pointer, whole(position, "position"))
