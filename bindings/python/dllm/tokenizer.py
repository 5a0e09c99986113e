"""Text to ids and back."""
from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_int32, c_int64
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from . import _arrays
from ._base import (Buffer, Managed, call, from_path, handle, make, options, pointer_of, read_text,
                    task_of)
from ._json import encoded
from ._lib import lib
from ._text import path_bytes, text_bytes
from ._values import content, is_list, refuse
from .batch import Batch
from .source import Source
from .task import Task

if TYPE_CHECKING:
    from .dataset import Dataset


class Tokenizer(Managed):
    """`Tokenizer(path)` loads tokenizer.json, a folder that holds one, a run, a GGUF file or a Source."""

    _release, noun = "dllm_tokenizer_release", "tokenizer"

    def __init__(self, path: str | os.PathLike[str] | Source, task: Task | None = None,
                 **settings: Any):
        with options("tokenizer", settings) as opts:
            if isinstance(path, Source):
                made = make("dllm_tokenizer_load_source", path.pointer, opts.pointer)
            else:
                made = from_path(path, "dllm_tokenizer_load_task", path_bytes(path), opts.pointer,
                                 task_of(task))
        super().__init__(made)

    @classmethod
    def train(cls, text: Dataset, task: Task | None = None, **settings: Any) -> Tokenizer:
        """A byte-level BPE tokenizer of a dataset that was opened without a tokenizer."""
        from .dataset import Dataset  # which imports this module
        made = cls.__new__(cls)
        with options("tokenizer_train", settings) as opts:
            Managed.__init__(made, make("dllm_tokenizer_train", handle(text, Dataset, "text"), opts.pointer,
                                        task_of(task)))
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes tokenizer.json into a folder, or to this file. Raises AlreadyExists for a file of
        another program."""
        call("dllm_tokenizer_save", self.pointer, path_bytes(path))

    def __len__(self) -> int:
        return int(lib.dllm_tokenizer_size(self.pointer))

    def id(self, name: str) -> int:
        """The id of one token by its text, or of "mask", "bos", "eos", "pad"."""
        found = c_int32()
        call("dllm_tokenizer_id", self.pointer, text_bytes(name, "name"), byref(found))
        return found.value

    def encode(self, text: str | bytes, task: Task | None = None) -> list[int]:
        """The ids of a text, as i32. A task can cancel it. Bytes that are not UTF-8 are kept."""
        data = text.encode() if isinstance(text, str) else content(text, "text", "a text or its bytes")
        made = make("dllm_tokenizer_encode_task", self.pointer, data, len(data), pointer_of(task, Task))
        with Batch._wrap(made) as row:
            return [int(x) for x in row["ids"][0]]

    def chat(self, messages: Sequence[Mapping[str, Any]], task: Task | None = None,
             **settings: Any) -> tuple[list[int], list[int]]:
        """(ids, keep) of a conversation: keep is 0 for text of the assistant. Settings of kind
        chat; tools and variables may be Python objects."""
        for key in ("tools", "variables"):
            if key in settings and not isinstance(settings[key], str):
                settings[key] = encoded(settings[key], key).decode()
        if not is_list(messages):
            refuse("messages", "a list of messages", messages)
        data = encoded(messages, "messages")
        with options("chat", settings) as opts:
            made = make("dllm_tokenizer_chat_task", self.pointer, data, len(data), opts.pointer,
                        pointer_of(task, Task))
        with Batch._wrap(made) as row:
            return [int(x) for x in row["ids"][0]], [int(x) for x in row["keep"][0]]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids. Raises InvalidArgument for an id that is not in the vocabulary."""
        values = _arrays.list_to_c(ids, "i32", "ids")
        return read_text("dllm_tokenizer_decode", self.pointer, values, len(values))

    def decode_stream(self, ids: Sequence[int]) -> tuple[str, int]:
        """(text, used): whole characters only; keep ids[used:] for the next call."""
        values, used = _arrays.list_to_c(ids, "i32", "ids"), c_int64()
        with Buffer() as out:
            call("dllm_tokenizer_decode_stream", self.pointer, values, len(values), out.pointer,
                 byref(used))
            return out.text(), used.value
