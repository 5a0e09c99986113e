"""Load, create, run and save a model."""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Mapping

from ._base import (Managed, call, from_path, handle, make, options, read_object, read_text,
                    task_of)
from ._json import encoded
from ._lib import lib
from ._text import path_bytes, text_bytes
from ._values import mapping, real
from .batch import Batch, as_batch
from .engine import Engine, default_engine
from .source import Source
from .task import Task
from .tensor import Tensor
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import AdapterSettings, ModelSettings


class Model(Managed):
    """A config and named parameters. `Model(path)` loads; `Model.new(config)` makes one."""

    _release, noun = "dllm_model_release", "model"

    def __init__(self, path: str | os.PathLike[str] | Source, engine: Engine | None = None,
                 task: Task | None = None, **settings: Unpack[ModelSettings]):
        """path: a model folder, a GGUF file, a run or checkpoint folder, or a Source.
        help(dllm.ModelSettings) lists the keywords."""
        runs_on = handle(default_engine() if engine is None else engine, Engine)
        with options("model", settings) as opts:
            if isinstance(path, Source):
                made = make("dllm_model_load_source", runs_on, path.pointer, opts.pointer,
                            task_of(task))
            else:
                made = from_path(path, "dllm_model_load", runs_on, path_bytes(path),
                                 opts.pointer, task_of(task))
        super().__init__(made)

    @classmethod
    def new(cls, config: Mapping[str, Any], engine: Engine | None = None, task: Task | None = None,
            **settings: Unpack[ModelSettings]) -> Model:
        """A model with random weights; config is the content of a config.json."""
        runs_on = handle(default_engine() if engine is None else engine, Engine)
        text = encoded(dict(mapping(config, "config", "the content of a config.json")))
        with options("model", settings) as opts:
            return cls._wrap(make("dllm_model_new", runs_on, text, len(text), opts.pointer,
                                  task_of(task)))

    def save(self, path: str | os.PathLike[str], task: Task | None = None, **settings: Any) -> None:
        """Writes a folder with config.json and safetensors, complete or not at all; the task counts bytes.
        Keywords are the options of kind "save". Raises AlreadyExists unless overwrite is True,
        ResourceExhausted for a full disk, PermissionDenied, Cancelled."""
        with options("save", settings) as opts:
            call("dllm_model_save", self.pointer, path_bytes(path), opts.pointer, task_of(task))

    @staticmethod
    def quantize(path: str | os.PathLike[str], target: str | os.PathLike[str],
                 task: Task | None = None, **settings: Any) -> dict[str, Any]:
        """Writes a model in another weight format: a .gguf file, or a folder. Returns the report."""
        with options("quantize", settings) as opts:
            return read_object("dllm_model_quantize", path_bytes(path), path_bytes(target, "target"), opts.pointer,
                               task_of(task))

    def config(self) -> dict[str, Any]:
        """The content of the config.json of the model."""
        return self._json("dllm_model_config")

    def describe(self) -> dict[str, Any]:
        """family, attention, shift, runs, bytes, end_tokens, objective, generation and storage."""
        return self._json("dllm_model_describe")

    def __getitem__(self, key: str) -> int:
        """A number: vocab hidden layers max_length mask_id params bytes."""
        return self._whole("dllm_model_i64", text_bytes(key, "key"))

    @property
    def version(self) -> int:
        """A count that every change of the weights increases, 1 or more."""
        return int(lib.dllm_model_version(self.pointer))

    def param_names(self) -> list[str]:
        """The names of all parameters, as param() takes them."""
        count = lib.dllm_model_param_count(self.pointer)
        return [lib.dllm_model_param_name(self.pointer, index).decode() for index in range(count)]

    def param(self, name: str) -> Tensor:
        """A copy of one parameter, in f32 or the type that it is stored in. Raises NotFound; the
        hint names the nearest."""
        return Tensor._wrap(make("dllm_model_param", self.pointer, text_bytes(name, "name")))

    def set_param(self, name: str, value: Tensor | Any) -> None:
        """Replaces one parameter; value is a Tensor, an array or nested lists of floats."""
        tensor = value if isinstance(value, Tensor) else Tensor._of(value, "f32", "value")
        call("dllm_model_set_param", self.pointer, text_bytes(name, "name"), tensor.pointer)

    def set_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Attaches a tokenizer to the model: every save and checkpoint writes it too."""
        call("dllm_model_set_tokenizer", self.pointer, handle(tokenizer, Tokenizer))

    def add_adapter(self, name: str = "default", task: Task | None = None,
                    **settings: Unpack[AdapterSettings]) -> None:
        """Adds a new LoRA adapter, which changes no result until it is trained. A trainer then trains it
        alone. help(dllm.AdapterSettings) lists the keywords."""
        with options("adapter", settings) as opts:
            call("dllm_model_add_adapter", self.pointer, text_bytes(name, "name"), opts.pointer, task_of(task))

    def load_adapter(self, path: str | os.PathLike[str], name: str = "default",
                     task: Task | None = None) -> None:
        """Adds an adapter with the numbers of a folder that PEFT or save_adapter wrote; the task counts
        bytes. Raises AlreadyExists when the model has an adapter of that name: name="other" adds one more.
        Raises NotFound for a missing file or matrix, InvalidArgument for other shapes, DataLoss."""
        call("dllm_model_load_adapter", self.pointer, path_bytes(path), text_bytes(name, "name"), task_of(task))

    def save_adapter(self, path: str | os.PathLike[str], name: str = "default",
                     task: Task | None = None) -> None:
        """Writes an adapter as a folder that PEFT reads, complete or not at all. Raises AlreadyExists
        when something is at path."""
        call("dllm_model_save_adapter", self.pointer, path_bytes(path), text_bytes(name, "name"), task_of(task))

    def merge_adapter(self, name: str | None = None, task: Task | None = None) -> None:
        """Adds the product of an adapter to the weights and removes the adapter; None: of every one."""
        call("dllm_model_merge_adapter", self.pointer, None if name is None else text_bytes(name, "name"),
             task_of(task))

    def remove_adapter(self, name: str = "default") -> None:
        """Removes an adapter and frees its memory."""
        call("dllm_model_remove_adapter", self.pointer, text_bytes(name, "name"))

    def add_network(self, other: Model, name: str = "teacher") -> None:
        """Adds the network of another model of the engine as a part that losses can read, such as a
        teacher. Its arrays are shared, and no trainer of this model trains it. Raises AlreadyExists for
        a name that is taken, InvalidArgument for a model of another engine."""
        call("dllm_model_add_network", self.pointer, handle(other, Model, "other"), text_bytes(name, "name"))

    def remove_network(self, name: str = "teacher") -> None:
        """Removes such a part. Raises NotFound, and the hint has the names."""
        call("dllm_model_remove_network", self.pointer, text_bytes(name, "name"))

    def set_adapter_scale(self, scale: float, name: str = "default") -> None:
        """Multiplies the product of an adapter by scale from now on; 0: the adapter is off."""
        call("dllm_model_set_adapter_scale", self.pointer, text_bytes(name, "name"), real(scale, "scale"))

    def adapters(self) -> list[dict[str, Any]]:
        """name, kind, rank, alpha, rslora, dora, scale, modules, params and bytes of each adapter."""
        found: list[dict[str, Any]] = json.loads(read_text("dllm_model_adapters", self.pointer))
        return found

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

        logits[:, i] predicts token i, also of a model with shift 1, where the state of token i - 1 makes it. shift=0 gives
        the logits of each token's own state, which predict the next token of such a model.

        rows: a Batch, named arrays, or ids (batch, seq) alone.
        """
        batch = as_batch(rows)
        with options("forward", settings) as opts:
            return Batch._wrap(make("dllm_model_forward", self.pointer, batch.pointer, opts.pointer,
                                    task_of(task)))
