"""Save a training run, resume it, read its tensors."""
from __future__ import annotations

import os
from typing import Any, Union

from ._base import Managed, call, from_path, handle, make, options, pointer_of, read_text, task_of
from ._json import encoded
from ._text import path_bytes, text_bytes
from .errors import NotFound
from .loader import Loader
from .task import Task
from .tensor import Tensor
from .trainer import Trainer

Path = Union[str, "os.PathLike[str]"]


def save_checkpoint(trainer: Trainer, loader: Loader | None, root: Path,
                    task: Task | None = None, script_state: Any = None, **settings: Any) -> str:
    """Saves all that is needed to resume a run bit for bit; returns the new folder. script_state: any JSON value."""
    if script_state is not None:
        settings["script_state"] = encoded(script_state, "script_state").decode()
    with options("checkpoint", settings) as opts:
        return read_text("dllm_checkpoint_save", handle(trainer, Trainer, "trainer"),
                         pointer_of(loader, Loader), path_bytes(root, "root"), opts.pointer, task_of(task))


def restore_checkpoint(trainer: Trainer, loader: Loader | None, dir: Path,
                       task: Task | None = None) -> None:
    """Restores trainer, model and loader."""
    call("dllm_checkpoint_restore", handle(trainer, Trainer, "trainer"), pointer_of(loader, Loader),
         path_bytes(dir, "dir"), task_of(task))


def latest_checkpoint(root: Path, task: Task | None = None) -> str | None:
    """The folder of a run's highest committed checkpoint, None when there is none."""
    try:
        return read_text("dllm_checkpoint_latest_task", path_bytes(root, "root"), task_of(task))
    except NotFound:
        return None


class Checkpoint(Managed):
    """Opens weights for reading: a checkpoint, a model folder, a safetensors or GGUF file."""

    _release, noun = "dllm_checkpoint_release", "checkpoint"

    def __init__(self, path: Path, task: Task | None = None):
        super().__init__(from_path(path, "dllm_checkpoint_open_task", path_bytes(path),
                                   task_of(task)))

    def describe(self) -> dict[str, Any]:
        """kind, path, step, metadata and tensors, each with name, dtype, shape and bytes."""
        return self._json("dllm_checkpoint_describe")

    def tensor(self, name: str) -> Tensor:
        """Reads one tensor; block formats become f32. Raises NotFound, DataLoss for a file that changed."""
        return Tensor._wrap(make("dllm_checkpoint_tensor", self.pointer, text_bytes(name, "name")))

    def verify(self, task: Task | None = None) -> None:
        """Reads every byte and compares sizes and checksums; raises DataLoss for a bad file."""
        call("dllm_checkpoint_verify", self.pointer, task_of(task))
