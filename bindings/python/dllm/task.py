"""Cancel and watch a long call from any thread."""
from __future__ import annotations

from ctypes import byref, c_int64, c_void_p

from ._base import Managed
from ._lib import lib


class Task(Managed):
    """Pass it to a long call, then cancel() from another thread: the call raises Cancelled.

    A cancelled task stays cancelled. Close it only after the calls that use it have returned.
    """

    _release, noun = "dllm_task_release", "task"

    def __init__(self, deadline: float | None = None):
        """deadline: seconds from now, after which calls raise DeadlineExceeded."""
        super().__init__(c_void_p(lib.dllm_task_new()))
        if deadline is not None:
            self.set_deadline(deadline)

    def cancel(self) -> None:
        lib.dllm_task_cancel(self.pointer)

    @property
    def cancelled(self) -> bool:
        return bool(lib.dllm_task_is_cancelled(self.pointer))

    def set_deadline(self, seconds: float | None) -> None:
        """Seconds from now; None removes the deadline."""
        lib.dllm_task_set_deadline(self.pointer, -1 if seconds is None else int(seconds * 1000))

    def progress(self) -> tuple[int, int]:
        """(done, total) of the running call; total 0: not known yet."""
        done, total = c_int64(), c_int64()
        lib.dllm_task_progress(self.pointer, byref(done), byref(total))
        return done.value, total.value
