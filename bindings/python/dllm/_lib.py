"""Finds libdllm, checks its ABI version, and has the functions of the whole library."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import ctypes.util
import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from . import _raw
from ._text import text_bytes
from ._values import function as function_of

_NAMES = {"darwin": ["libdllm.1.dylib", "libdllm.dylib"], "win32": ["dllm.dll"]}.get(
    sys.platform, ["libdllm.so.1", "libdllm.so"])


def _candidates() -> list[str]:
    """Where to look: DLLM_LIBRARY alone when it is set, else the folder of the package, a build, then the system."""
    named = os.environ.get("DLLM_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    nearby = [os.path.join(here, name) for name in _NAMES]
    found = ctypes.util.find_library("dllm")
    # A checkout after ./scripts/build, and an installed prefix.
    folders = [os.path.join(here, folder) for folder in ("../../../build/release/lib", "../../../../lib")]
    for folder in folders + _source_build():
        nearby += [os.path.normpath(os.path.join(folder, name)) for name in _NAMES]
    return [path for path in nearby if os.path.exists(path)] + ([found] if found else []) + _NAMES


def _source_build() -> list[str]:
    """build/release/lib of the checkout that pip copied the package from: pip writes down where that was."""
    import importlib.metadata
    import urllib.parse
    import urllib.request
    try:
        origin = importlib.metadata.distribution("dllm").read_text("direct_url.json")
        address = urllib.parse.urlparse(json.loads(origin or "{}").get("url", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return []
    if address.scheme != "file":
        return []
    return [os.path.join(urllib.request.url2pathname(address.path), "../../build/release/lib")]


def _open() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as problem:
            tried.append(f"  {path}: {problem}")
            continue
        _check(library, path)
        return library
    here = os.path.dirname(os.path.abspath(__file__))
    raise ImportError("cannot load libdllm; tried\n" + "\n".join(tried) +
                      "\nset DLLM_LIBRARY to the path of libdllm.so, or copy libdllm.so into " + here)


def _check(library: ctypes.CDLL, path: str) -> None:
    try:
        version = library.dllm_abi_version
    except AttributeError:
        raise ImportError(f"{path} is not a libdllm: it has no dllm_abi_version") from None
    version.restype, version.argtypes = ctypes.c_int32, []
    if version() != _raw.ABI:
        raise ImportError(f"{path} has ABI {version()}, this package ABI {_raw.ABI}; "
                          "install versions that belong together")
    missing = _raw.bind(library)
    if missing:
        raise ImportError(f"{path} is older than this package, it lacks: " + ", ".join(missing))


lib = _open()


def abi_version() -> int:
    """The version of the C interface that the library has."""
    return int(lib.dllm_abi_version())


def version() -> str:
    """The version of the library, such as "0.2.0"."""
    return str(lib.dllm_version(), "utf-8")


def build_info() -> dict[str, Any]:
    """How the library was built: compiler, simd, lua, pjrt, git."""
    found: dict[str, Any] = json.loads(lib.dllm_build_info())
    return found


def has_feature(name: str) -> bool:
    """Whether the library was built with a part: "lua", "pjrt", "openmp", "bf16"."""
    return bool(lib.dllm_has_feature(text_bytes(name, "name")))


def names(kind: str) -> list[str]:
    """Names of a registry kind: engine family objective options policy schedule sink."""
    found: list[str] = []
    while (name := lib.dllm_registry_name(text_bytes(kind, "kind"), len(found))) is not None:
        found.append(name.decode())
    return found


_LEVELS = {"debug": _raw.LOG_DEBUG, "info": _raw.LOG_INFO, "warn": _raw.LOG_WARN,
           "error": _raw.LOG_ERROR}
_SINKS = {"none": _raw.SINK_NONE, "stderr": _raw.SINK_STDERR, "queue": _raw.SINK_QUEUE}


_LogFn = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
_log_function: Any = None  # what the library calls; it must outlive its use


def log_to(sink: str | logging.Logger | Callable[[str, str], Any], level: str = "info") -> None:
    """Sends log lines of the process, from a level on ("debug", "info", "warn", "error"), to "none", "stderr", "queue" (read
    by log_lines), a logging.Logger, or a function of (level, line). Any thread of the library may call that function, one
    line at a time; it must not call dllm, and what it raises is dropped."""
    global _log_function
    text_bytes(level, "level")
    if not isinstance(sink, (str, logging.Logger)):
        function_of(sink, "sink", "a name, a logging.Logger or a function")
    if level not in _LEVELS or (isinstance(sink, str) and sink not in _SINKS):
        raise ValueError(f"log_to({sink!r}, {level!r}): sinks are {', '.join(_SINKS)}, a logging.Logger or a function; "
                         f"levels are {', '.join(_LEVELS)}")
    if isinstance(sink, str):
        lib.dllm_log_config(_LEVELS[level], _SINKS[sink])
        _log_function = None
        return
    names_of = {number: name for name, number in _LEVELS.items()}
    numbers = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

    def hook(number: int, line: bytes, _: Any) -> None:
        with contextlib.suppress(Exception):
            text = line.decode("utf-8", "replace")
            if isinstance(sink, logging.Logger):
                sink.log(numbers[names_of[number]], "%s", text)
            else:
                sink(names_of[number], text)

    function = _LogFn(hook)
    lib.dllm_log_hook(_LEVELS[level], ctypes.cast(function, ctypes.c_void_p), None)
    _log_function = function  # the one before is not called any more


# No thread of the library may call into an interpreter that ends.
atexit.register(lambda: log_to("none") if _log_function is not None else None)


def log_lines() -> list[tuple[str, str]]:
    """Removes all (level, line) pairs from the queue, oldest first."""
    from ._base import Buffer
    level_names = {number: name for name, number in _LEVELS.items()}
    level, lines = ctypes.c_int32(), []
    with Buffer() as line:
        while lib.dllm_log_next(line.pointer, ctypes.byref(level)):
            lines.append((level_names[level.value], line.text()))
    return lines
