"""Ctrl-C during a long call of the library.

The interpreter runs no Python code while the main thread is inside C: a KeyboardInterrupt would come after the
call, hours later for a training run. So every call that takes a task gets one, and while it runs a thread waits
for the byte that the interpreter writes for each signal (signal.set_wakeup_fd) and cancels the task. The call
returns between two layers, everything stays usable, and KeyboardInterrupt comes out of it.
"""
from __future__ import annotations

import os
import signal
import socket
import threading
# What `signal` wraps. The wrapper looks a handler up in an enum, and fails in it; in Python 3.9.2 that exception is a
# cycle that keeps the frames of the caller, so a stream that a loop leaves early would live until the next collection.
from _signal import getsignal, set_wakeup_fd  # type: ignore[import-not-found,unused-ignore]
from _signal import signal as set_handler  # type: ignore[import-not-found,unused-ignore]
from typing import Any

from ._lib import lib


class TaskArgument:
    """A placeholder in an argument list for the task of a call: the caller's, or one of our own."""

    __slots__ = ("task",)

    def __init__(self, task: Any):
        self.task = task


class _Watcher:
    """One thread of the process; `guard` is the call that a SIGINT cancels."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.guard: Guard | None = None
        self.forward = -1  # a wakeup descriptor that was set before ours, an event loop's
        self.drained = threading.Event()
        self.receiving, self.sending = socket.socketpair()
        self.sending.setblocking(False)
        threading.Thread(target=self._watch, name="dllm interrupt", daemon=True).start()

    def _watch(self) -> None:
        while data := self.receiving.recv(4096):
            with self.lock:
                if signal.SIGINT in data and self.guard is not None:
                    self.guard.cancel()
                signals = bytes(number for number in data if number)
                if signals and self.forward >= 0:
                    try:
                        os.write(self.forward, signals)
                    except OSError:
                        pass  # full or closed: as the interpreter, which drops the byte
            if 0 in data:
                self.drained.set()

    def drain(self) -> None:
        """Waits until every byte so far was read: none of them may cancel the next call."""
        self.drained.clear()
        self.sending.send(b"\0")
        self.drained.wait(5)


_watcher: _Watcher | None = None


def _watcher_here() -> _Watcher:
    global _watcher
    if _watcher is None or _watcher.pid != os.getpid():  # a fork has no threads of its parent
        _watcher = _Watcher()
    return _watcher


class Guard:
    """While it is entered, SIGINT cancels `task`; leaving it raises KeyboardInterrupt when that happened."""

    def __init__(self, task: Any):
        self._own = None if task is not None else lib.dllm_task_new()
        self.pointer = self._own if task is None else task.pointer
        self.in_callback = False  # Python code runs: the interrupt is raised in it, at once
        self._signalled = False  # a SIGINT came: the watcher may not have read its byte yet
        self._pressed = False  # and KeyboardInterrupt is still to be raised

    def cancel(self) -> None:
        if not self.in_callback:
            lib.dllm_task_cancel(self.pointer)

    def _on_signal(self, *_: Any) -> None:
        self._signalled = True
        if self.in_callback:
            self.in_callback = False
            raise KeyboardInterrupt
        self._pressed = True
        lib.dllm_task_cancel(self.pointer)

    def __enter__(self) -> Guard:
        self._watcher = _watcher_here()
        self._before = set_handler(signal.SIGINT, self._on_signal)
        with self._watcher.lock:
            self._outer, self._watcher.guard = self._watcher.guard, self
        self._descriptor = set_wakeup_fd(self._watcher.sending.fileno(), warn_on_full_buffer=False)
        if self._outer is None:
            self._watcher.forward = self._descriptor
        return self

    def __exit__(self, *_: Any) -> None:
        set_wakeup_fd(self._descriptor)
        set_handler(signal.SIGINT, self._before)  # runs our handler first when a signal is pending
        with self._watcher.lock:
            self._watcher.guard = self._outer
        if self._own is not None:
            lib.dllm_task_release(self._own)
        if self._signalled:
            self._watcher.drain()
        if self._pressed:
            raise KeyboardInterrupt


class _NoGuard:
    """Another thread's call, or a program that handles SIGINT by itself: the task is the caller's alone."""

    in_callback = False

    def __init__(self, task: Any):
        self.pointer = None if task is None else task.pointer

    def __enter__(self) -> _NoGuard:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def guard_for(args: tuple[Any, ...]) -> Guard | _NoGuard | None:
    """What to enter around a call with these arguments; None where no task is among them."""
    for argument in args:
        if type(argument) is not TaskArgument:
            continue
        if threading.current_thread() is threading.main_thread():
            handler = getsignal(signal.SIGINT)
            if handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), Guard):
                return Guard(argument.task)
        return _NoGuard(argument.task)
    return None


def resolved(args: tuple[Any, ...], guard: Guard | _NoGuard) -> list[Any]:
    """The arguments with the task's pointer in its place."""
    return [guard.pointer if type(a) is TaskArgument else a for a in args]
