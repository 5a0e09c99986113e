"""Text in, text out."""
from __future__ import annotations

import os
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from . import errors
from ._base import (Managed, call, from_path, handle, make, options, read_object, read_text,
                    task_of)
from ._request import (Prompt, check_prompt, divided, engine_of, request_options, with_prompt,
                       with_text)
from ._text import path_bytes, text_bytes
from ._turns import Turns
from ._values import items, refuse, whole
from .decoder import Decoder
from .engine import Engine
from .event import Callback, run_with
from .generation import Generation, generation_of
from .model import Model
from .stream import Stream
from .task import Task
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import (AddSettings, EngineSettings, GeneratorSettings, LoadSettings,
                            RequestSettings)


def load(path: str | os.PathLike[str], engine: Engine | EngineSettings | None = None,
         task: Task | None = None, **settings: Unpack[LoadSettings]) -> Generator:
    """Loads a model with its tokenizer: `dllm.load("model", dtype="q8_0").generate("Hello")`.

    path is a model folder, a GGUF file, a run or a checkpoint. engine is an Engine, or the settings
    of a new one; None: dllm.default_engine(). help(dllm.LoadSettings) lists the keywords.

    Raises FileNotFound, DataLoss for a damaged file, UnknownOption, Cancelled.
    """
    for_model, for_generator = divided(settings, "model", "generator")
    runs_on = engine_of(engine)
    with options("model", for_model) as model, options("generator", for_generator) as opts:
        return Generator._wrap(from_path(path, "dllm_generator_load", path_bytes(path),
                                         runs_on.pointer, model.pointer, opts.pointer, task_of(task)))


class Generator(Managed):
    """A model, its tokenizer and the requests that are decoded together. dllm.load makes one.

    `Generator(model, tokenizer)` takes what is loaded. help(dllm.GeneratorSettings) lists the
    keywords. Any thread may call it: its calls and the steps of its streams run one after another, and
    a task ends the wait too. A callback may call text and describe of its generator; other calls raise
    FailedPrecondition. A callback must not wait for a call on another thread: both would wait forever.
    """

    _release, noun = "dllm_generator_release", "generator"

    def __init__(self, model: Model, tokenizer: Tokenizer, **settings: Unpack[GeneratorSettings]):
        with options("generator", settings) as opts:
            super().__init__(make("dllm_generator_new", handle(model, Model),
                                  handle(tokenizer, Tokenizer), opts.pointer))
        self._begin()

    @classmethod
    def _wrap(cls, pointer: c_void_p) -> Generator:
        made = super()._wrap(pointer)
        made._begin()
        return made

    def _begin(self) -> None:
        self._turns = Turns(self._remove_forgotten)
        self._forgotten: list[int] = []  # requests of streams that nothing refers to any more

    def _forget(self, request: int) -> None:
        """Removes the request of a stream that is over: now, or after the call of another thread.

        The collector calls it, in any thread and inside of any call, so it does not wait.
        """
        self._forgotten.append(request)
        self._turns.try_take()

    def _remove_forgotten(self) -> None:
        while True:
            try:
                request = self._forgotten.pop()  # first: a call in between may remove others
            except IndexError:
                return
            try:
                self.remove(request)
            except errors.FailedPrecondition:  # inside a callback of the generator
                self._forgotten.append(request)
                return
            except errors.NotFound:  # removed by hand
                continue
            except errors.ClosedError:
                return

    def generate(self, prompt: Prompt = "", /, *, task: Task | None = None,
                 **settings: Unpack[RequestSettings]) -> Generation:
        """Continues a text, or a conversation of messages with "role" and "content".

        help(dllm.RequestSettings) lists the keywords: length and steps are counts, seed makes the
        text repeatable, policy chooses further keywords. `await dllm.run_async(g.generate, "Hi")`
        runs it on a thread.

        Raises UnknownOption, InvalidArgument, OutOfRange when prompt and answer are longer than the
        model allows, FailedPrecondition for messages without a chat template, Cancelled.
        """
        with self._turns.take(task):
            return self._answer(self._add(with_prompt(prompt, settings), task), task)

    def infill(self, text: str, /, *, task: Task | None = None,
               **settings: Unpack[RequestSettings]) -> Generation:
        """Fills the holes of a text: <mask:N> is N open tokens, <mask> is one.

        The text of the result is the whole text; holes lists what is new. Keywords and errors are
        those of generate.
        """
        if not isinstance(text, str):
            refuse("text", "a text with holes", text)
        with self._turns.take(task):
            return self._answer(self._add(with_text("infill", text, settings), task), task)

    def stream(self, prompt: Prompt = "", /, *, task: Task | None = None,
               **settings: Unpack[RequestSettings]) -> Stream:
        """The pieces of a text while it is decided: `for piece in g.stream("Hi"): print(piece)`.

        Each round of `for`, or of `async for`, takes one denoising step of all open requests.
        Keywords and errors are those of generate.
        """
        with self._turns.take(task):
            return Stream(self, self._add(with_prompt(prompt, settings), task), task)

    def batch(self, prompts: Sequence[Prompt], /, *, task: Task | None = None,
              **settings: Unpack[RequestSettings]) -> list[Generation | errors.Error]:
        """Decodes several prompts together, and returns a Generation or an exception for each.

        An error of one prompt does not end the others. Prompt number i has the seed seed + i.
        Keywords are those of generate. Raises what concerns all prompts: UnknownOption, Cancelled.
        """
        given = items(prompts, "prompts", "a list of prompts")
        for at, prompt in enumerate(given):
            check_prompt(prompt, f"prompts[{at}]")
        results: dict[int, Generation | errors.Error] = {}
        seed, waiting = whole(settings.get("seed") or 0, "seed"), list(enumerate(given))
        while waiting:
            with self._turns.take(task):
                waiting = self._decode_some(waiting, settings, seed, results, task)
        return [results[at] for at in range(len(given))]

    def _decode_some(self, waiting: list[tuple[int, Prompt]], settings: RequestSettings, seed: int,
                     results: dict[int, Generation | errors.Error],
                     task: Task | None) -> list[tuple[int, Prompt]]:
        """Decodes as many prompts as there are slots; returns those that are left."""
        added: dict[int, int] = {}
        try:
            while waiting:
                at, prompt = waiting[0]
                try:
                    added[at] = self._add(with_prompt(prompt, {**settings, "seed": seed + at}), task)
                except errors.ResourceExhausted as problem:
                    if added:
                        break  # the slots of these are free after the run
                    results[at] = problem
                except (errors.UnknownOption, errors.Cancelled, errors.DeadlineExceeded):
                    raise
                except errors.Error as problem:
                    results[at] = problem
                waiting = waiting[1:]
            self.run(task=task)
            for at, request in added.items():
                results[at] = self._result(request)
        finally:
            for request in added.values():
                self.remove(request)
        return waiting

    def _result(self, request: int) -> Generation | errors.Error:
        try:
            self.text(request)
        except errors.Error as problem:
            return problem
        return generation_of(self.describe(request))

    def _answer(self, request: int, task: Task | None) -> Generation:
        """Decodes one request and removes it."""
        try:
            self.run(task=task)
            result = self._result(request)
        finally:
            self.remove(request)
        if isinstance(result, errors.Error):
            raise result
        return result

    def _add(self, settings: Mapping[str, object], task: Task | None) -> int:
        number = c_int64()
        self._remove_forgotten()
        with request_options(settings) as opts:
            call("dllm_generator_add", self.pointer, opts.pointer, task_of(task), byref(number))
        return number.value

    def add(self, *, task: Task | None = None, **settings: Unpack[AddSettings]) -> int:
        """Adds a request and returns its number. One of prompt, messages and infill is its text.

        help(dllm.AddSettings) lists the keywords. ResourceExhausted when no slot is free.
        """
        with self._turns.take(task):
            return self._add(settings, task)

    def remove(self, request: int) -> None:
        """Removes a request, open or over. Its number may be used again. Raises NotFound for another number."""
        with self._turns.take():
            call("dllm_generator_remove", self.pointer, whole(request, "request"))

    def step(self, task: Task | None = None) -> int:
        """Takes one denoising step of every open request; returns how many are open. Raises FailedPrecondition
        without a request, Cancelled: the requests stay open."""
        with self._turns.take(task):
            return self._whole("dllm_generator_step", task_of(task))

    def run(self, callback: Callback | None = None, task: Task | None = None) -> None:
        """Takes steps until no request is open. callback gets the events "text" and "answer" and may
        return dllm.STOP. A request that failed raises in text(), not here."""
        with self._turns.take(task):
            run_with("dllm_generator_run", callback, self.pointer, after=(task_of(task),))

    def text(self, request: int, part: str = "completion") -> str:
        """A part of a text: completion, text (with the prompt), next (what is new since the last
        call) or canvas (with <mask:N> for open positions). Raises the error of the request."""
        with self._turns.take():
            return read_text("dllm_generator_text", self.pointer, whole(request, "request"), text_bytes(part, "part"))

    def describe(self, request: int = -1) -> dict[str, Any]:
        """A request: finish, error, ids, states, from_file, ...; -1: the generator."""
        with self._turns.take():
            return read_object("dllm_generator_describe", self.pointer, whole(request, "request"))

    def decoder(self) -> Decoder:
        """The decoder, for its readers. Its slots have the numbers of the requests."""
        return Decoder._wrap(make("dllm_generator_decoder", self.pointer))

    def model(self) -> Model:
        """The model of the generator, as an object of its own."""
        return Model._wrap(make("dllm_generator_model", self.pointer))

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the generator, as an object of its own."""
        return Tokenizer._wrap(make("dllm_generator_tokenizer", self.pointer))
