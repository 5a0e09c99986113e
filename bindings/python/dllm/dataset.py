"""Documents to train on."""
from __future__ import annotations

import os
from ctypes import byref, c_int64
from typing import Any, Iterable, Mapping

from ._base import Managed, call, from_path, make, options, pointer_of, task_of
from ._json import encoded
from ._lib import lib
from ._text import path_bytes
from ._values import items, mapping
from .model import Model
from .task import Task
from .tokenizer import Tokenizer


class Dataset(Managed):
    """`Dataset(path, tokenizer)` opens text, JSON lines or token files; without tokenizer raw text."""

    _release, noun = "dllm_dataset_release", "dataset"

    def __init__(self, path: str | os.PathLike[str] | None = None,
                 tokenizer: Tokenizer | None = None, task: Task | None = None, **settings: Any):
        """path None: empty, to fill with add()."""
        watched = task_of(task)
        with options("dataset", settings) as opts:
            if path is None:
                made = make("dllm_dataset_new", pointer_of(tokenizer, Tokenizer), opts.pointer)
            else:
                made = from_path(path, "dllm_dataset_open", path_bytes(path),
                                 pointer_of(tokenizer, Tokenizer), opts.pointer, watched)
        super().__init__(made)

    @classmethod
    def of(cls, rows: Iterable[str | Mapping[str, Any]], tokenizer: Tokenizer | None = None,
           **settings: Any) -> Dataset:
        """A dataset of texts, or of mappings as in a line of a JSONL file."""
        given = items(rows, "rows", "a list of texts or of mappings")
        made = cls(None, tokenizer, **settings)
        for row in given:
            made.add(row)
        return made

    def add(self, row: str | Mapping[str, Any]) -> None:
        """Adds one document: a text, or a mapping as in a line of a JSONL file. Raises
        InvalidArgument for other keys, FailedPrecondition for messages without a chat template."""
        text = encoded({"text": row} if isinstance(row, str) else dict(mapping(row, "row", "a text or a mapping")))
        call("dllm_dataset_add", self.pointer, text, len(text))

    def __len__(self) -> int:
        return int(lib.dllm_dataset_size(self.pointer))

    def save(self, path: str | os.PathLike[str], task: Task | None = None, **settings: Any) -> None:
        """Writes a token file; batches read their ids from it."""
        with options("save", settings) as opts:
            call("dllm_dataset_save", self.pointer, path_bytes(path), opts.pointer,
                 task_of(task))

    def extract_trajectories(self, teacher: Model | None, path: str | os.PathLike[str],
                             task: Task | None = None, **settings: Any) -> int:
        """Appends the trajectories of the rows that the file lacks, and returns their number. teacher None: for method
        left_to_right."""
        rows = c_int64()
        with options("trajectories", settings) as opts:
            call("dllm_dataset_extract_trajectories", self.pointer, pointer_of(teacher, Model, "teacher"),
                 path_bytes(path), opts.pointer, task_of(task), byref(rows))
        return rows.value
