"""What a call that failed raises: one class per status, all below Error."""
from __future__ import annotations

import ctypes
import threading

from . import _raw


class Error(Exception):
    """A failed call: `code` is the status as a number, `name` its name, `hint` what to try."""

    code = _raw.UNKNOWN

    def __init__(self, message: str, hint: str = "", code: int | None = None, name: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.name = name
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class Cancelled(Error):
    """The task was cancelled."""


class InvalidArgument(Error, ValueError):
    """A value out of range, of the wrong type or shape."""


class DeadlineExceeded(Error):
    """The task's deadline passed."""


class NotFound(Error, LookupError):
    """No such key, name or file; the hint names the nearest."""


class UnknownOption(NotFound, TypeError):
    """A keyword argument that is not an option."""


class FileNotFound(NotFound, FileNotFoundError):
    """A path that does not exist."""


class AlreadyExists(Error):
    """A name or a folder is taken."""


class PermissionDenied(Error):
    """Refused by the system or the sandbox."""


class ResourceExhausted(Error):
    """Memory, disk, or a limit that was set."""


class FailedPrecondition(Error):
    """The right call in the wrong state."""


class Aborted(Error):
    """The object is unusable after an earlier failure."""


class OutOfRange(Error, IndexError):
    """The end of the data, or an index past the end."""


class Unimplemented(Error, NotImplementedError):
    """Not supported by this build or engine."""


class Internal(Error):
    """A bug of the library."""


class Unavailable(Error):
    """A device or a peer cannot be reached now."""


class DataLoss(Error):
    """A file is damaged: the message names the file, what was expected and what was found."""


class Unauthenticated(Error):
    """The caller is not authenticated."""


class CallbackFailed(Error):
    """A callback returned FAIL without raising."""


class ScriptFailed(Error):
    """A Lua script raised an error; the hint holds its traceback."""


class ClosedError(ValueError):
    """An object was used after close()."""


BY_CODE = {
    _raw.CANCELLED: Cancelled,
    _raw.UNKNOWN: Error,
    _raw.INVALID_ARGUMENT: InvalidArgument,
    _raw.DEADLINE_EXCEEDED: DeadlineExceeded,
    _raw.NOT_FOUND: NotFound,
    _raw.ALREADY_EXISTS: AlreadyExists,
    _raw.PERMISSION_DENIED: PermissionDenied,
    _raw.RESOURCE_EXHAUSTED: ResourceExhausted,
    _raw.FAILED_PRECONDITION: FailedPrecondition,
    _raw.ABORTED: Aborted,
    _raw.OUT_OF_RANGE: OutOfRange,
    _raw.UNIMPLEMENTED: Unimplemented,
    _raw.INTERNAL: Internal,
    _raw.UNAVAILABLE: Unavailable,
    _raw.DATA_LOSS: DataLoss,
    _raw.UNAUTHENTICATED: Unauthenticated,
    _raw.CALLBACK_FAILED: CallbackFailed,
    _raw.SCRIPT_FAILED: ScriptFailed,
}


class _ThreadError(threading.local):
    """The one dllm_error of this thread, released with the thread."""

    def __init__(self) -> None:
        from ._lib import lib
        self._lib = lib
        self.pointer = ctypes.c_void_p(lib.dllm_error_new())

    def __del__(self) -> None:
        self._lib.dllm_error_release(self.pointer)


_here: _ThreadError | None = None


def thread_error() -> ctypes.c_void_p:
    """The dllm_error to pass to calls on this thread."""
    global _here
    if _here is None:
        _here = _ThreadError()
    return _here.pointer


def of(status: int, message: str = "", hint: str = "") -> Error:
    """The exception of a status."""
    from ._lib import lib
    name = lib.dllm_status_name(status).decode()
    return BY_CODE.get(status, Error)(message or name, hint, status, name)


def from_status(status: int) -> Error:
    """The exception for a status that a call with thread_error() just returned."""
    from ._lib import lib
    pointer = thread_error()
    if lib.dllm_error_code(pointer) != status:
        return of(status)
    return of(status, lib.dllm_error_message(pointer).decode("utf-8", "replace"),
              lib.dllm_error_hint(pointer).decode("utf-8", "replace"))
