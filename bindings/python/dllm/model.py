"""Load, create, run and save a model."""
from __future__ import annotations

import ctypes
import json
import os
from typing import TYPE_CHECKING, Any, Mapping

from ._base import Managed, call, from_path, make, options, path_bytes, read_object, task_of
from ._lib import lib
from .batch import Batch, as_batch
from .engine import Engine, default_engine
from .source import Source
from .task import Task
from .tensor import Tensor

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


class Model(Managed):
    """A config and named parameters. `Model(path)` loads; `Model.new(config)` makes one."""

    _release, noun = "dllm_model_release", "model"

    def __init__(self, path: str | os.PathLike[str] | Source, engine: Engine | None = None,
                 task: Task | None = None, **settings: Any):
        """path: a model folder, a GGUF file, a run or checkpoint folder, or a Source."""
        engine = engine or default_engine()
        with options("model", settings) as opts:
            if isinstance(path, Source):
                made = make("dllm_model_load_source", engine.pointer, path.pointer, opts.pointer,
                            task_of(task))
            else:
                made = from_path(path, "dllm_model_load", engine.pointer, path_bytes(path),
                                 opts.pointer, task_of(task))
        super().__init__(made)

    @classmethod
    def _wrap(cls, pointer: ctypes.c_void_p) -> Model:
        made = cls.__new__(cls)
        Managed.__init__(made, pointer)
        return made

    @classmethod
    def new(cls, config: Mapping[str, Any], engine: Engine | None = None, task: Task | None = None,
            **settings: Any) -> Model:
        """A model with random weights; config is the content of a config.json."""
        engine = engine or default_engine()
        text = json.dumps(dict(config)).encode()
        with options("model", settings) as opts:
            return cls._wrap(make("dllm_model_new", engine.pointer, text, len(text), opts.pointer,
                                  task_of(task)))

    def save(self, path: str | os.PathLike[str], task: Task | None = None, **settings: Any) -> None:
        with options("save", settings) as opts:
            call("dllm_model_save", self.pointer, path_bytes(path), opts.pointer, task_of(task))

    @staticmethod
    def quantize(path: str | os.PathLike[str], target: str | os.PathLike[str],
                 task: Task | None = None, **settings: Any) -> dict[str, Any]:
        """Writes a model in another weight format: a .gguf file, or a folder. Returns the report."""
        with options("quantize", settings) as opts:
            return read_object("dllm_model_quantize", path_bytes(path), path_bytes(target), opts.pointer,
                               task_of(task))

    def config(self) -> dict[str, Any]:
        return self._json("dllm_model_config")

    def describe(self) -> dict[str, Any]:
        return self._json("dllm_model_describe")

    def __getitem__(self, key: str) -> int:
        """A number: vocab hidden layers max_length mask_id params bytes."""
        return self._whole("dllm_model_i64", key.encode())

    @property
    def version(self) -> int:
        return int(lib.dllm_model_version(self.pointer))

    def param_names(self) -> list[str]:
        count = lib.dllm_model_param_count(self.pointer)
        return [lib.dllm_model_param_name(self.pointer, index).decode() for index in range(count)]

    def param(self, name: str) -> Tensor:
        return Tensor._wrap(make("dllm_model_param", self.pointer, name.encode()))

    def set_param(self, name: str, value: Tensor | Any) -> None:
        """Replaces one parameter; value is a Tensor, an array or nested lists of floats."""
        tensor = value if isinstance(value, Tensor) else Tensor(value, "f32")
        call("dllm_model_set_param", self.pointer, name.encode(), tensor.pointer)

    def set_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Attaches a tokenizer to the model: every save and checkpoint writes it too."""
        call("dllm_model_set_tokenizer", self.pointer, tokenizer.pointer)

    def __repr__(self) -> str:
        if self.closed:
            return "<dllm.Model (closed)>"
        about = self.describe()
        return (f"<dllm.Model {about['family']}, {self['layers']} layers of {about['hidden']}, "
                f"{about['params'] / 1e6:.2f} M parameters, vocabulary {about['vocab']}, "
                f"{about['attention']}>")

    def forward(self, rows: Batch | Mapping[str, Any] | Any, task: Task | None = None,
                **settings: Any) -> Batch:
        """Runs the model once; the result holds logits (batch, seq, vocab).

        rows: a Batch, named arrays, or ids (batch, seq) alone.
        """
        batch = as_batch(rows)
        with options("forward", settings) as opts:
            return Batch._wrap(make("dllm_model_forward", self.pointer, batch.pointer, opts.pointer,
                                    task_of(task)))
