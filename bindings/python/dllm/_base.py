"""The base of all objects: closing, calls, buffers, options."""
from __future__ import annotations

import ctypes
import json
import os
from ctypes import byref, c_double, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Mapping, TypeVar

from . import errors
from ._interrupt import TaskArgument, guard_for, resolved
from ._json import encoded
from ._lib import lib
from ._text import text_bytes
from ._values import mapping, refuse

if TYPE_CHECKING:
    from .task import Task

Self = TypeVar("Self")


def check(status: int) -> None:
    """Raises the exception of a status other than 0."""
    if status:
        raise errors.from_status(status)


def call(name: str, *args: Any) -> None:
    """Calls a function whose last parameter is the error, and raises when it fails."""
    guard = guard_for(args)
    if guard is None:
        return check(getattr(lib, name)(*args, errors.thread_error()))
    with guard:
        status = getattr(lib, name)(*resolved(args, guard), errors.thread_error())
    check(status)


def make(name: str, *args: Any) -> c_void_p:
    """Calls a function whose last parameters are `out` and the error; returns the new handle."""
    out = c_void_p()
    call(name, *args, byref(out))
    return out


def handle(value: Any, kind: type[Managed], name: str = "") -> Any:
    """The pointer of an object of this class; TypeError for anything else. name: of the argument, else the noun."""
    if not isinstance(value, kind):
        refuse(name or kind.noun, article(kind), value)
    return value.pointer


def article(kind: type) -> str:
    """A class in a sentence: "a dllm.Model", "a dllm.Engine"."""
    return f"a dllm.{kind.__name__}"


class Uncopied:
    """An object that cannot be copied or pickled: two of them would release one handle."""

    def __reduce_ex__(self, _: Any) -> Any:
        name = article(type(self))
        raise TypeError(f"{name} cannot be copied or pickled: it has a handle of this process; pass the object itself")


class Managed(Uncopied):
    """Owns one handle. It may be closed twice; using a closed object raises ClosedError.

    The library keeps parents alive, so objects may be closed in any order.
    """

    _release = noun = ""

    def __init__(self, pointer: c_void_p):
        if not isinstance(pointer, c_void_p):
            refuse("pointer", "a handle of the C interface", pointer)
        self._pointer: c_void_p | None = pointer

    @classmethod
    def _wrap(cls: type[Self], pointer: c_void_p) -> Self:
        """An object of this class for a handle that the library made."""
        made = cls.__new__(cls)
        Managed.__init__(made, pointer)  # type: ignore[arg-type]
        return made

    @property
    def pointer(self) -> c_void_p:
        """The handle for calls of the C interface. Raises ClosedError for a closed object."""
        pointer: c_void_p | None = getattr(self, "_pointer", None)
        if pointer is None:
            raise errors.ClosedError(f"this {type(self).__name__} is closed")
        return pointer

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return getattr(self, "_pointer", None) is None

    def close(self) -> None:
        """Frees the object now. A second call does nothing."""
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer is not None:
            getattr(lib, self._release)(pointer)

    def __enter__(self: Self) -> Self:
        self.pointer  # type: ignore[attr-defined]
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if lib is not None:  # the interpreter may be going down
            self.close()

    def __repr__(self) -> str:
        return f"<dllm.{type(self).__name__}{' (closed)' if self.closed else ''}>"

    def _json(self, name: str) -> dict[str, Any]:
        """The JSON object that a function writes about this object."""
        return read_object(name, self.pointer)

    def _whole(self, name: str, *args: Any) -> int:
        """A function of this object whose last parameter before the error is an int64."""
        out = c_int64()
        call(name, self.pointer, *args, byref(out))
        return out.value

    def _real(self, name: str, *args: Any) -> float:
        """As _whole, for a double."""
        out = c_double()
        call(name, self.pointer, *args, byref(out))
        return out.value


class Buffer(Managed):
    """Text or bytes that the library wrote."""

    _release = "dllm_buffer_release"

    def __init__(self) -> None:
        super().__init__(c_void_p(lib.dllm_buffer_new()))

    def bytes(self) -> bytes:
        size: int = lib.dllm_buffer_size(self.pointer)
        return ctypes.string_at(lib.dllm_buffer_data(self.pointer), size)

    def text(self) -> str:
        return self.bytes().decode("utf-8", "replace")


def read_text(name: str, *args: Any) -> str:
    """Calls a function whose last parameters are a buffer and the error; returns the text."""
    with Buffer() as out:
        call(name, *args, out.pointer)
        return out.text()


def read_object(name: str, *args: Any) -> dict[str, Any]:
    """As read_text, for functions that write a JSON object."""
    found: dict[str, Any] = json.loads(read_text(name, *args))
    return found


def from_path(path: str | os.PathLike[str], name: str, *args: Any) -> c_void_p:
    """make() for a function that reads `path`, which is one of the arguments: FileNotFound where nothing is there."""
    try:
        return make(name, *args)
    except errors.NotFound as problem:
        if os.path.exists(path):
            raise
        raise errors.FileNotFound(problem.message, problem.hint, problem.code, problem.name) from None


def pointer_of(value: Any, kind: type[Managed], name: str = "") -> Any:
    """The pointer of an object of this class, or None for None; TypeError for anything else."""
    return None if value is None else handle(value, kind, name)


def task_of(task: Task | None) -> TaskArgument:
    """The task of a long call; without one Ctrl-C still stops it (_interrupt.py)."""
    if task is not None and getattr(task, "noun", "") != "task":
        refuse("task", "a dllm.Task", task)
    return TaskArgument(task)


class Options(Managed):
    """Keys and values of one kind; unknown or wrong ones raise when they are set."""

    _release = "dllm_options_release"

    def __init__(self, kind: str, values: dict[str, Any] | None = None):
        given = {} if values is None else mapping(values, "values", "a mapping of keys to values")
        super().__init__(make("dllm_options_new", text_bytes(kind, "kind")))
        if not given:
            return
        text = encoded(given)
        try:
            call("dllm_options_set_json", self.pointer, text, len(text))
        except errors.NotFound as problem:
            raise errors.UnknownOption(problem.message, problem.hint, problem.code, problem.name) from None

    def values(self) -> dict[str, Any]:
        """Every key with its effective value."""
        return self._json("dllm_options_to_json")


def schema(kind: str) -> dict[str, Any]:
    """The keys of a kind of options, with types, defaults, ranges and one sentence each."""
    return read_object("dllm_options_schema", text_bytes(kind, "kind"))


class _NoOptions:
    pointer = None

    def __enter__(self) -> _NoOptions:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def options(kind: str, values: Mapping[str, object]) -> Options | _NoOptions:
    """Options made of keyword arguments; None means the default."""
    given = {key: value for key, value in values.items() if value is not None}
    return Options(kind, given) if given else _NoOptions()


