"""Run Lua scripts inside the library."""
from __future__ import annotations

import json
import os
from typing import Any

from ._base import Buffer, Managed, call, make, options, task_of
from ._json import encoded
from ._text import path_bytes, text_bytes
from .task import Task


class Lua(Managed):
    """A runner with its own Lua state; the values that scripts return are a list."""

    _release, noun = "dllm_lua_release", "lua"

    def __init__(self, **settings: Any):
        with options("lua", settings) as opts:
            super().__init__(make("dllm_lua_new", opts.pointer))

    def set(self, name: str, value: Any) -> None:
        """Sets a global to an object of the library, or to any JSON value."""
        if isinstance(value, Managed):
            call("dllm_lua_set_object", self.pointer, text_bytes(name, "name"), value.noun.encode(),
                 value.pointer)
            return
        text = encoded(value, name)
        call("dllm_lua_set_json", self.pointer, text_bytes(name, "name"), text, len(text))

    def run_file(self, path: str | os.PathLike[str], *args: Any,
                 task: Task | None = None) -> list[Any]:
        """Runs a file with these arguments; returns the list of what it returns. Raises NotFound,
        ScriptFailed (the message has file and line, the hint the traceback), ResourceExhausted at a
        limit, Cancelled."""
        return self._run("dllm_lua_run_file", path_bytes(path), encoded(args, "args"), task)

    def run_text(self, code: str, name: str = "text", task: Task | None = None) -> list[Any]:
        """Runs a text; name is its name in messages. Raises as run_file() does."""
        return self._run("dllm_lua_run_text", text_bytes(name, "name"), text_bytes(code, "code"), task)

    def call(self, function: str, *args: Any, task: Task | None = None) -> list[Any]:
        """Calls a global function; dots reach into tables."""
        return self._run("dllm_lua_call", text_bytes(function, "function"), encoded(args, "args"), task)

    def _run(self, function: str, name: bytes, text: bytes, task: Task | None) -> list[Any]:
        with Buffer() as out:
            call(function, self.pointer, name, text, len(text), task_of(task), out.pointer)
            returned: list[Any] = json.loads(out.bytes() or b"[]")
            return returned
