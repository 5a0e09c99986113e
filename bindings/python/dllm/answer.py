"""The text of a canvas while it is decided."""
from __future__ import annotations

from ctypes import byref, c_int32, c_int64
from typing import Any, Sequence

from . import _arrays, _raw
from ._base import Buffer, Managed, call, handle, make, options, read_text
from .tokenizer import Tokenizer

_ENDS = {_raw.ANSWER_FULL: "full", _raw.ANSWER_END_TOKEN: "end_token",
         _raw.ANSWER_STOP_TEXT: "stop_text"}


class Answer(Managed):
    """`Answer(tokenizer, begin=len(prompt), stop_texts=["User:"])` turns ids and states into text."""

    _release, noun = "dllm_answer_release", "answer"

    def __init__(self, tokenizer: Tokenizer, **settings: Any):
        with options("answer", settings) as opts:
            super().__init__(make("dllm_answer_new", handle(tokenizer, Tokenizer), opts.pointer))

    def update(self, ids: Sequence[int], states: Sequence[int]) -> str | None:
        """The canvas now, as of decoder.ids and decoder.states. None, or why the answer is over:
        "full", "end_token", "stop_text"."""
        tokens, end = _arrays.list_to_c(ids, "i32", "ids"), c_int32()
        kinds = _arrays.list_to_c(states, "u8", "states")
        if len(tokens) != len(kinds):
            raise ValueError(f"{len(tokens)} ids, {len(kinds)} states")
        call("dllm_answer_update", self.pointer, tokens, kinds, len(tokens), byref(end))
        return _ENDS.get(end.value)

    def text(self) -> str:
        """The text up to the first masked position or the end of the answer."""
        return read_text("dllm_answer_text", self.pointer)

    def next(self) -> str:
        """The final text that is new since the last call."""
        return read_text("dllm_answer_next", self.pointer)

    def cells(self) -> list[str]:
        """One text per position of the canvas."""
        with Buffer() as out:
            ends = _arrays.ask("dllm_answer_cells", "i64", self.pointer, out.pointer)
            data = out.bytes()
        begins = [0, *ends[:-1]]
        return [data[begin:end].decode("utf-8", "replace") for begin, end in zip(begins, ends)]
