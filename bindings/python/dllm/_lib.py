"""Finds libdllm, checks its ABI version, and has the functions of the whole library."""
from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import sys
from typing import Any

from . import _raw

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
    for folder in ("../../../build/release/lib", "../../../../lib"):
        nearby += [os.path.normpath(os.path.join(here, folder, name)) for name in _NAMES]
    return [path for path in nearby if os.path.exists(path)] + ([found] if found else []) + _NAMES


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
        raise ImportError(f"{path} is no libdllm: it has no dllm_abi_version") from None
    version.restype, version.argtypes = ctypes.c_int32, []
    if version() != _raw.ABI:
        raise ImportError(f"{path} has ABI {version()}, this package ABI {_raw.ABI}; "
                          "install versions that belong together")
    missing = _raw.bind(library)
    if missing:
        raise ImportError(f"{path} is older than this package, it lacks: " + ", ".join(missing))


lib = _open()


def abi_version() -> int:
    return int(lib.dllm_abi_version())


def version() -> str:
    return str(lib.dllm_version(), "utf-8")


def build_info() -> dict[str, Any]:
    """How the library was built: compiler, simd, lua, pjrt, git."""
    found: dict[str, Any] = json.loads(lib.dllm_build_info())
    return found


def has_feature(name: str) -> bool:
    return bool(lib.dllm_has_feature(name.encode()))


def names(kind: str) -> list[str]:
    """Names of a registry kind: engine family objective options policy schedule sink."""
    found: list[str] = []
    while (name := lib.dllm_registry_name(kind.encode(), len(found))) is not None:
        found.append(name.decode())
    return found


_LEVELS = {"debug": _raw.LOG_DEBUG, "info": _raw.LOG_INFO, "warn": _raw.LOG_WARN,
           "error": _raw.LOG_ERROR}
_SINKS = {"none": _raw.SINK_NONE, "stderr": _raw.SINK_STDERR, "queue": _raw.SINK_QUEUE}


def log_to(sink: str, level: str = "info") -> None:
    """Sends log lines of the process to "none", "stderr" or "queue" (read by log_lines)."""
    if sink not in _SINKS or level not in _LEVELS:
        raise ValueError(f"log_to({sink!r}, {level!r}): sinks are {', '.join(_SINKS)}; "
                         f"levels are {', '.join(_LEVELS)}")
    lib.dllm_log_config(_LEVELS[level], _SINKS[sink])


def log_lines() -> list[tuple[str, str]]:
    """Removes all (level, line) pairs from the queue, oldest first."""
    from ._base import Buffer
    level_names = {number: name for name, number in _LEVELS.items()}
    level, lines = ctypes.c_int32(), []
    with Buffer() as line:
        while lib.dllm_log_next(line.pointer, ctypes.byref(level)):
            lines.append((level_names[level.value], line.text()))
    return lines
