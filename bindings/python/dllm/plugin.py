"""Find and describe PJRT plugins."""
from __future__ import annotations

import json
import os
from typing import Any

from ._base import read_object, read_text
from ._text import path_bytes


def plugins() -> list[dict[str, Any]]:
    """The plugins that are found, by platform; none is loaded."""
    found: list[dict[str, Any]] = json.loads(read_text("dllm_plugin_list"))
    return found


def describe_plugin(plugin: str | os.PathLike[str]) -> dict[str, Any]:
    """Describes a plugin (a path, or "cpu", "tpu", "cuda"). Loads it into this process: a bad one may end it."""
    return read_object("dllm_plugin_describe", path_bytes(plugin, "plugin"))
