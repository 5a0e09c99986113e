"""The devices and threads that compute."""
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from ._base import Managed, call, make, options, read_text, task_of
from ._lib import lib
from ._text import path_bytes, text_bytes
from ._values import whole
from .task import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import EngineSettings


class Engine(Managed):
    """An engine: `Engine(threads=4)`. help(dllm.EngineSettings) lists the keywords."""

    _release, noun = "dllm_engine_release", "engine"

    def __init__(self, **settings: Unpack[EngineSettings]):
        with options("engine", settings) as opts:
            super().__init__(make("dllm_engine_new", opts.pointer))

    def devices(self) -> list[str]:
        """The names of the devices, such as "cpu:0"."""
        count = lib.dllm_engine_device_count(self.pointer)
        return [lib.dllm_engine_device_name(self.pointer, index).decode() for index in range(count)]

    def describe(self) -> dict[str, Any]:
        """kind, devices, threads, simd, arithmetic, product_kernel and memory (used, peak, limit,
        in bytes)."""
        return self._json("dllm_engine_describe")

    def __getitem__(self, key: str) -> int:
        return self._whole("dllm_engine_i64", text_bytes(key, "key"))

    def __setitem__(self, key: str, value: int) -> None:
        call("dllm_engine_set_i64", self.pointer, text_bytes(key, "key"), whole(value, "value"))

    def plan(self, path: str | os.PathLike[str], task: Task | None = None, **settings: Any) -> str:
        """What a job on a model needs, as text of the chosen format (default JSON)."""
        with options("plan", settings) as opts:
            return read_text("dllm_engine_plan", self.pointer, path_bytes(path), opts.pointer,
                             task_of(task))

    def trim(self) -> None:
        """Frees memory that is not in use."""
        call("dllm_engine_trim", self.pointer)


_default: Engine | None = None
_lock = threading.Lock()


def default_engine() -> Engine:
    """The engine of models that were made without one; made once."""
    global _default
    with _lock:
        if _default is None or _default.closed:
            _default = Engine()
        return _default
