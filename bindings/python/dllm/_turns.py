"""Calls of several threads on one object, one after another."""
from __future__ import annotations

from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Callable, Iterator

from ._base import task_of

if TYPE_CHECKING:
    from .task import Task

PAUSE = 0.01  # seconds between two looks at the task of a call that waits, as the library has


class Turns:
    """One thread at a time has the turn, and may take it again inside of it. `after` runs at the end of a turn."""

    def __init__(self, after: Callable[[], None]) -> None:
        self._lock, self._after = RLock(), after
        self._depth = 0  # calls of the thread that has the turn, each inside of the one before

    @contextmanager
    def take(self, task: Task | None = None) -> Iterator[None]:
        """Waits for the turn. The task ends the wait as it would end the call; Ctrl-C ends it too."""
        task_of(task)
        while not self._lock.acquire(timeout=-1 if task is None else PAUSE):
            if task is not None:
                task._check()
        self._depth += 1
        try:
            yield
        finally:
            self._leave()

    def try_take(self) -> bool:
        """Takes the turn and ends it at once, unless another thread has it."""
        taken = self._lock.acquire(blocking=False)
        if taken:
            self._depth += 1
            self._leave()
        return taken

    def _leave(self) -> None:
        try:
            if self._depth == 1:
                self._after()
        finally:
            self._depth -= 1
            self._lock.release()
