"""Models and data sets of the Hugging Face hub by name, and the cache that has them.

HF_ENDPOINT, HF_TOKEN, HF_HUB_CACHE and HF_HUB_OFFLINE of os.environ count, as for huggingface_hub. Sizes are in bytes.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List

from ._base import options, read_object, read_text, task_of
from ._text import path_bytes
from .task import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import HubSettings


def pull(name: str, task: Task | None = None, **settings: Unpack[HubSettings]) -> str:
    """Loads the files of a name into the cache, unless they are there; returns the path.

    name: "org/name", "org/name@revision" or "org/name:file". dllm.load, Model and Tokenizer take the
    path. The progress of the task counts bytes. A pull that ends early keeps its bytes, and the next
    one goes on with them. help(dllm.HubSettings) lists the keywords.

    Raises errors.NotFound for a name that the hub does not have, PermissionDenied, Unauthenticated,
    ResourceExhausted for a full disk, Unavailable without a network, Cancelled.
    """
    with options("hub", settings) as opts:
        return read_text("dllm_hub_pull", path_bytes(name, "name"), opts.pointer, task_of(task))


def describe(name: str, task: Task | None = None, **settings: Unpack[HubSettings]) -> Dict[str, Any]:
    """Asks the hub what pull() would load, and loads nothing. It raises as pull() does.

    Returns name, commit, path, bytes, missing (bytes that are not in the cache), free (bytes that the
    disk has left), memory (bytes that this process may use) and files, each with path, size, cached
    and weights.
    """
    with options("hub", settings) as opts:
        return read_object("dllm_hub_describe", path_bytes(name, "name"), opts.pointer, task_of(task))


def list(task: Task | None = None) -> List[Dict[str, Any]]:
    """The repositories in the cache; the network is not used.

    Each has name, kind ("model" or "dataset"), bytes, incomplete (bytes of files whose pull ended
    early), used (seconds since 1970), path and snapshots, each with commit, revisions, files (how many
    there are), bytes and path. Raises errors.Cancelled.
    """
    found: List[Dict[str, Any]] = json.loads(read_text("dllm_hub_list", task_of(task)))
    return found


def verify(name: str, task: Task | None = None) -> Dict[str, Any]:
    """Reads every file of a repository in the cache and compares the SHA-256 of large files.

    Returns name, files (how many there are), checked (how many have a SHA-256), bytes and faults, each
    with path and what. Raises errors.NotFound for a name that the cache does not have, Cancelled.
    """
    return read_object("dllm_hub_verify", path_bytes(name, "name"), task_of(task))


def remove(name: str, task: Task | None = None) -> int:
    """Removes a repository from the cache, or one revision of it for "org/name@revision".

    Returns the bytes that were freed. Files that another revision uses stay. Raises errors.NotFound for
    a name that the cache does not have, Cancelled.
    """
    freed: int = read_object("dllm_hub_remove", path_bytes(name, "name"), task_of(task))["freed"]
    return freed
