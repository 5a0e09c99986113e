"""Events, and the trampoline that calls callbacks."""
from __future__ import annotations

import enum
from ctypes import byref, c_double, c_int64
from typing import Any, Callable

from . import _arrays, _raw
from ._base import Uncopied, check, read_object
from ._interrupt import guard_for, resolved
from ._lib import lib
from ._text import text_bytes
from ._values import function
from .errors import ClosedError, NotFound, from_status, thread_error

KINDS = {value: name[len("EVENT_"):].lower() for name, value in vars(_raw).items()
         if name.startswith("EVENT_") and isinstance(value, int)}


class Event(Uncopied):
    """One event, valid until the callback returns: event.kind, event["loss"], event["ids"].

    The library makes events for callbacks; a program does not.
    """

    _pointer: int | None = None

    @classmethod
    def _of(cls, pointer: int) -> Event:
        made = cls()
        made._pointer = pointer
        return made

    @property
    def pointer(self) -> int:
        """The handle for calls of the C interface. Raises ClosedError after the callback."""
        if self._pointer is None:
            raise ClosedError("this event is over: read it inside the callback")
        return self._pointer

    @property
    def kind(self) -> str:
        """"progress", "train_step", "eval", "decode_step", "block", "checkpoint", "text" or "answer"."""
        number = lib.dllm_event_kind(self.pointer)
        return KINDS.get(number, str(number))

    def values(self) -> dict[str, Any]:
        """All values of the event."""
        return read_object("dllm_event_describe", self.pointer)

    def __getitem__(self, key: str) -> Any:
        if key == "kind":
            return self.kind
        name, count = text_bytes(key, "key"), c_int64()
        whole, real = c_int64(), c_double()
        status = lib.dllm_event_i64(self.pointer, name, byref(whole), thread_error())
        if status == _raw.OK:
            return whole.value
        if status == _raw.NOT_FOUND:
            raise from_status(status)
        if lib.dllm_event_f64(self.pointer, name, byref(real), thread_error()) == _raw.OK:
            return real.value
        text = lib.dllm_event_str(self.pointer, name)
        if text is not None:
            return text.decode()
        ids = lib.dllm_event_i32s(self.pointer, name, byref(count))
        if ids:
            return _arrays.from_c(ids, "i32", count.value)
        reals = lib.dllm_event_f32s(self.pointer, name, byref(count))
        if reals:
            return _arrays.from_c(reals, "f32", count.value)
        raise NotFound(f"event {self.kind} has no key {key!r}")

    def get(self, key: str, default: Any = None) -> Any:
        """event[key], or default where the event has no such key."""
        try:
            return self[key]
        except NotFound:
            return default


class Flow(enum.Enum):
    """What a callback returns. It is not a number, which many calls return by accident."""

    CONTINUE = _raw.CONTINUE
    STOP = _raw.STOP


CONTINUE, STOP = Flow.CONTINUE, Flow.STOP
Callback = Callable[[Event], Any]


def run_with(name: str, callback: Callback | None, *before: Any, after: tuple[Any, ...]) -> None:
    """Calls a function `(before..., fn, user_data, after..., err)`.

    An exception of the callback is parked while C frames are on the stack, and raised again when
    the call is back.
    """
    if callback is not None:
        function(callback, "callback", "a function of an event")
    parked: list[BaseException] = []
    guard = guard_for(after)
    assert guard is not None, f"{name} takes a task"

    def answer_of(event: Event) -> int:
        try:
            guard.in_callback = True
            answer = callback(event)  # type: ignore[misc]
            guard.in_callback = False
            if answer is None:
                return _raw.CONTINUE
            if not isinstance(answer, Flow):
                raise TypeError(f"a callback returns None or dllm.STOP, not {answer!r}")
            return answer.value
        finally:
            guard.in_callback = False
            event._pointer = None

    def trampoline(pointer: int, _: Any) -> int:
        # Ctrl-C raises while in_callback is set alone, so that nothing is raised out of here.
        try:
            return answer_of(Event._of(pointer))
        except BaseException as problem:
            parked.append(problem)
            return _raw.FAIL

    fn = _raw.EVENT_FN(trampoline) if callback is not None else _raw.EVENT_FN()
    with guard:
        status = getattr(lib, name)(*before, fn, None, *resolved(after, guard), thread_error())
    if parked:
        raise parked[0]
    check(status)
