"""Requests of many threads, which one model answers."""
from __future__ import annotations

import os
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

from ._base import (Managed, call, from_path, handle, make, options, read_object, read_text,
                    task_of)
from ._request import Prompt, divided, engine_of, names_of, request_options, with_prompt
from ._text import path_bytes, text_bytes
from ._values import whole
from .engine import Engine
from .generation import Generation
from .model import Model
from .task import Task, _milliseconds
from .ticket import Ticket
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import (EngineSettings, QueueLoadSettings, QueueSettings,
                            SubmissionSettings)

_ALWAYS = 1 << 62  # milliseconds: longer than any program


class Queue(Managed):
    """A model that decodes the requests of many threads, on a thread of its own.

    `Queue.load("model")` loads a model with its tokenizer, `Queue(model, tokenizer)` takes what is
    loaded. help(dllm.QueueSettings) lists the keywords. Any thread may call it, and its calls do not
    wait for each other. Close it when no call of it runs: that cancels what is not over.
    """

    _release, noun = "dllm_queue_release", "queue"

    def __init__(self, model: Model, tokenizer: Tokenizer, **settings: Unpack[QueueSettings]):
        with options("queue", settings) as opts:
            super().__init__(make("dllm_queue_new", handle(model, Model),
                                  handle(tokenizer, Tokenizer), opts.pointer))

    @classmethod
    def load(cls, path: str | os.PathLike[str], engine: Engine | EngineSettings | None = None,
             task: Task | None = None, **settings: Unpack[QueueLoadSettings]) -> Queue:
        """Loads a model with its tokenizer, as dllm.load does: `Queue.load("model", slots=16)`.

        help(dllm.QueueLoadSettings) lists the keywords. Raises what dllm.load raises.
        """
        for_model, for_queue = divided(settings, "model", "queue")
        runs_on = engine_of(engine)
        with options("model", for_model) as model, options("queue", for_queue) as opts:
            return cls._wrap(from_path(path, "dllm_queue_load", path_bytes(path), runs_on.pointer,
                                       model.pointer, opts.pointer, task_of(task)))

    def submit(self, prompt: Prompt | None = None, /, *, task: Task | None = None,
               **settings: Unpack[SubmissionSettings]) -> Ticket:
        """Submits a request and returns its ticket at once. A ticket that nothing refers to removes its request.

        prompt is a text, or messages with "role" and "content"; without it a keyword has the text,
        such as infill. help(dllm.SubmissionSettings) lists the keywords: all of a generator's, and
        priority, client and timeout.

        Raises what Generator.add raises for a request that cannot be read, ResourceExhausted when too
        many requests wait, Unavailable after drain. Later errors raise where the ticket is read.
        """
        given = dict(settings) if prompt is None else with_prompt(prompt, settings)
        own = {key: given.pop(key) for key in names_of("submission") if key in given}
        number = c_int64()
        with request_options(given) as request, options("submission", own) as opts:
            call("dllm_queue_submit", self.pointer, request.pointer, opts.pointer, task_of(task), byref(number))
        return Ticket(self, number.value)

    def generate(self, prompt: Prompt | None = None, /, *, task: Task | None = None,
                 **settings: Unpack[SubmissionSettings]) -> Generation:
        """Decodes one request next to other requests. Takes the arguments of submit, and has its errors."""
        with self.submit(prompt, task=task, **settings) as ticket:
            return ticket.generation(task)

    def wait(self, version: int = 0, timeout: float | None = None, task: Task | None = None) -> int:
        """Waits until any request has changed: until the version of the queue is above `version`, or for timeout
        seconds. Returns the version now."""
        return self._wait(-1, whole(version, "version"), timeout, task)[0]

    def _wait(self, request: int, version: int, timeout: float | None, task: Task | None) -> tuple[int, bool]:
        """The version of a request, and whether it is over."""
        now, over = c_int64(version), c_int64()
        milliseconds = _ALWAYS if timeout is None else _milliseconds(timeout, "timeout")
        call("dllm_queue_wait", self.pointer, request, _ALWAYS if milliseconds < 0 else milliseconds,
             task_of(task), byref(now), byref(over))
        return now.value, over.value != 0

    def _text(self, request: int, part: str) -> str:
        return read_text("dllm_queue_text", self.pointer, request, text_bytes(part, "part"))

    def _describe(self, request: int) -> dict[str, Any]:
        return read_object("dllm_queue_describe", self.pointer, request)

    def _cancel(self, request: int) -> None:
        call("dllm_queue_cancel", self.pointer, request)

    def _remove(self, request: int) -> None:
        call("dllm_queue_remove", self.pointer, request)

    def describe(self) -> dict[str, Any]:
        """The queue: slots, waiting, decoding, over, totals, ..."""
        return self._describe(-1)

    def drain(self, task: Task | None = None) -> None:
        """Takes no further requests, and waits until all are over. Raises Cancelled: requests are refused all the same."""
        call("dllm_queue_drain", self.pointer, task_of(task))

    def model(self) -> Model:
        """The model of the queue, as an object of its own."""
        return Model._wrap(make("dllm_queue_model", self.pointer))

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the queue, as an object of its own."""
        return Tokenizer._wrap(make("dllm_queue_tokenizer", self.pointer))
