"""Decode text step by step."""
from __future__ import annotations

import json
from ctypes import byref, c_double, c_int64
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Sequence

from . import _arrays
from ._base import Managed, Uncopied, call, handle, make, options, read_text, task_of
from ._text import text_bytes
from ._values import real, whole
from .asynchronous import run_async
from .batch import Batch
from .event import Callback, run_with
from .model import Model
from .task import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import DecoderSettings, SlotSettings


class Steps(Uncopied):
    """The results of step() until everything is decided. With `async for` each step runs on a thread."""

    def __init__(self, decoder: Decoder, task: Task | None):
        self._decoder, self._task, self._active = decoder, task_of(task).task, 1

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self._active == 0:
            raise StopIteration
        self._active = self._decoder.step(self._task)
        return self._active

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        if self._active == 0:
            raise StopAsyncIteration
        self._active = await run_async(self._decoder.step, task=self._task)
        return self._active


def kind_of(noun: str, policy: Any) -> str:
    """The kind of options of a noun; a policy, where one is given, has options of its own."""
    if policy is None or not text_bytes(policy, "policy"):
        return noun
    return f"{noun}:{policy}"


def _flags(fixed: Any) -> Any:
    """Flags of numpy in a list as numbers of Python."""
    if not isinstance(fixed, (list, tuple)):
        return fixed
    return [flag.item() if hasattr(flag, "item") else flag for flag in fixed]


class Decoder(Managed):
    """`Decoder(model, steps=32, gen_length=64)`. help(dllm.DecoderSettings) lists the keywords."""

    _release, noun = "dllm_decoder_release", "decoder"

    def __init__(self, model: Model, **settings: Unpack[DecoderSettings]):
        with options(kind_of("decoder", settings.get("policy")), settings) as opts:
            super().__init__(make("dllm_decoder_new", handle(model, Model), opts.pointer))

    def start(self, prompt: Sequence[int] = (), seed: int = 0) -> None:
        """Removes all requests and starts one in slot 0: the prompt, then gen_length open positions."""
        ids = _arrays.list_to_c(prompt, "i32", "prompt")
        call("dllm_decoder_start", self.pointer, ids, len(ids), whole(seed, "seed"))

    def add(self, canvas: Sequence[int], fixed: Sequence[int] | None = None,
            **settings: Unpack[SlotSettings]) -> int:
        """Adds a request with a given canvas (fixed 1: given, 0: open); returns its slot.
        help(dllm.SlotSettings) lists the keywords."""
        ids, slot = _arrays.list_to_c(canvas, "i32", "canvas"), c_int64()
        given = None if fixed is None else _arrays.list_to_c(_flags(fixed), "u8", "fixed")
        if given is not None and len(given) != len(ids):
            raise ValueError(f"canvas has {len(ids)} positions, fixed {len(given)}")
        with options("slot", settings) as opts:
            call("dllm_decoder_add", self.pointer, ids, given, len(ids), opts.pointer, byref(slot))
        return slot.value

    def remove(self, slot: int) -> None:
        """Removes a request; its slot may be used again. Raises NotFound for a slot that is not in use."""
        call("dllm_decoder_remove", self.pointer, whole(slot, "slot"))

    def step(self, task: Task | None = None) -> int:
        """One denoising step of every active slot; how many still have open positions. Raises FailedPrecondition
        without a request, Cancelled."""
        return self._whole("dllm_decoder_step", task_of(task))

    def step_for(self, milliseconds: float, callback: Callback | None = None,
                 task: Task | None = None) -> int:
        """Runs steps for this long; it may end inside a step, which the next call continues. Returns how many
        slots still have open positions. callback gets the events of completed steps."""
        active = c_int64()
        run_with("dllm_decoder_step_for", callback, self.pointer, c_double(real(milliseconds, "milliseconds")),
                 after=(task_of(task), byref(active)))
        return active.value

    def steps(self, task: Task | None = None) -> Steps:
        """Steps until everything is decided, one for each round of `for` or `async for`."""
        return Steps(self, task)

    def run(self, callback: Callback | None = None, task: Task | None = None) -> None:
        """Steps until everything is decided; callback gets every event, may return dllm.STOP."""
        run_with("dllm_decoder_run", callback, self.pointer, after=(task_of(task),))

    def predict(self, task: Task | None = None) -> None:
        """Runs the model for the next step and decides nothing: see statistics and commit."""
        call("dllmx_decoder_predict", self.pointer, task_of(task))

    def statistics(self, slot: int = 0) -> Batch:
        """The predictions: positions, token, probability, argmax, entropy, top_ids, ..."""
        return Batch._wrap(make("dllmx_decoder_statistics", self.pointer, whole(slot, "slot")))

    def commit(self, slot: int, positions: Sequence[int], ids: Sequence[int]) -> None:
        """Decides these positions and ends the slot's step."""
        where, tokens = _arrays.list_to_c(positions, "i64", "positions"), _arrays.list_to_c(ids, "i32", "ids")
        if len(where) != len(tokens):
            raise ValueError(f"{len(where)} positions, {len(tokens)} ids")
        call("dllmx_decoder_commit", self.pointer, whole(slot, "slot"), where, tokens, len(where))

    def ids(self, slot: int = 0) -> Any:
        """The canvas: prompt and answer, the mask id where a position is open."""
        return _arrays.ask("dllm_decoder_ids", "i32", self.pointer, whole(slot, "slot"))

    def states(self, slot: int = 0) -> Any:
        """dllm.MASKED, PROVISIONAL, FINAL or FIXED for every position."""
        return _arrays.ask("dllm_decoder_states", "u8", self.pointer, whole(slot, "slot"))

    def confidence(self, slot: int = 0) -> Any:
        """The probability that each token had when it was last predicted: 1 for a given one, 0 for none."""
        return _arrays.ask("dllm_decoder_confidence", "f32", self.pointer, whole(slot, "slot"))

    def metric(self, key: str, slot: int = -1) -> float:
        """A number of a slot, or of all slots (-1): "steps", "nfe" (forward passes), "decided" and "open"
        (positions), "finish" (0: open, 1: all decided, 2: stopped, 3: failed); of all slots also
        "cache_bytes", "reused" and "computed" (positions), ... Raises NotFound for another key."""
        return self._real("dllm_decoder_metric", whole(slot, "slot"), text_bytes(key, "key"))

    def trace(self, slot: int = 0) -> list[dict[str, Any]]:
        """The trace, one object per step: step, ids, states, confidence. The decoder is made with
        trace=True; a last object with "stopped" means that it exceeded trace_bytes."""
        text = read_text("dllm_decoder_trace", self.pointer, whole(slot, "slot"))
        return [json.loads(line) for line in text.splitlines() if line]

    def describe(self) -> dict[str, Any]:
        """The options, the slots, and the metrics of all slots with their units."""
        return self._json("dllm_decoder_describe")
