"""Files held in memory, to load models and tokenizers from."""
from __future__ import annotations

from ._base import Managed, call, make
from ._text import text_bytes
from ._values import content, mapping


class Source(Managed):
    """Takes the place of a folder: `Source({"config.json": ..., "model.safetensors": ...})`."""

    _release, noun = "dllm_source_release", "source"

    def __init__(self, files: dict[str, bytes] | None = None):
        given = {} if files is None else mapping(files, "files", "a dict of names to bytes")
        super().__init__(make("dllm_source_new"))
        for name, data in given.items():
            self.add(name, data)

    def add(self, name: str, data: bytes) -> None:
        """Copies a file in under the name it would have in the folder."""
        held = content(data, "data", f"the bytes of {name}" if isinstance(name, str) else "bytes")
        call("dllm_source_add", self.pointer, text_bytes(name, "name"), held, len(held), 0)
