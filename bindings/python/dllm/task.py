"""Cancel and watch a long call from any thread."""
from __future__ import annotations

import math
from ctypes import byref, c_int64, c_void_p

from . import _raw, errors
from ._base import Managed
from ._lib import lib
from ._values import real


def _milliseconds(value: float, name: str) -> int:
    """Seconds as the library takes them: -1 for inf, 0 for what has passed."""
    seconds = real(value, name)
    if math.isnan(seconds):
        raise ValueError(f"{name} is nan: write a number of seconds")
    return -1 if seconds == math.inf else int(min(max(0.0, seconds * 1000), 2.0 ** 62))


class Task(Managed):
    """Pass it to a long call, then cancel() from another thread: the call raises Cancelled.

    A cancelled task stays cancelled. Close it only after the calls that use it have returned.
    """

    _release, noun = "dllm_task_release", "task"

    def __init__(self, deadline: float | None = None):
        """deadline: seconds from now, after which calls raise DeadlineExceeded."""
        milliseconds = -1 if deadline is None else _milliseconds(deadline, "deadline")
        super().__init__(c_void_p(lib.dllm_task_new()))
        lib.dllm_task_set_deadline(self.pointer, milliseconds)

    def cancel(self) -> None:
        """Calls that use the task raise Cancelled within milliseconds, and every object stays
        usable. Any thread may call it."""
        lib.dllm_task_cancel(self.pointer)

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled or its deadline has passed."""
        return bool(lib.dllm_task_is_cancelled(self.pointer))

    def set_deadline(self, seconds: float | None) -> None:
        """Seconds from now; 0 and less: it has passed already; None and inf remove the deadline."""
        milliseconds = -1 if seconds is None else _milliseconds(seconds, "seconds")
        lib.dllm_task_set_deadline(self.pointer, milliseconds)

    def _check(self) -> None:
        """Raises what a call with this task would raise, when it was cancelled or its deadline has passed."""
        if not self.cancelled:
            return
        # Without its deadline a task is cancelled only by a cancel. The deadline is back before the next check.
        lib.dllm_task_set_deadline(self.pointer, -1)
        was_cancelled = self.cancelled
        lib.dllm_task_set_deadline(self.pointer, 0)
        if was_cancelled:
            raise errors.of(_raw.CANCELLED, "the task was cancelled")
        raise errors.of(_raw.DEADLINE_EXCEEDED, "the task's deadline has passed")

    def progress(self) -> tuple[int, int]:
        """(done, total) of the running call; total 0: not known yet."""
        done, total = c_int64(), c_int64()
        lib.dllm_task_progress(self.pointer, byref(done), byref(total))
        return done.value, total.value
