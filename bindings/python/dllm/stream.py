"""A text while it is decided, step by step."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator

from . import errors
from ._base import Uncopied, task_of
from ._values import refuse, whole
from .asynchronous import run_async
from .generation import Generation, generation_of
from .task import Task

if TYPE_CHECKING:
    from .generator import Generator


@dataclass(frozen=True)
class Piece:
    """What one denoising step added. str() returns the text."""

    text: str  # final text that is new; all of them together are the text of the generation
    canvas: str = field(repr=False)  # the whole text, with <mask:N> for N open positions
    open: int  # positions that are not decided
    step: int  # steps taken so far

    def __str__(self) -> str:
        return self.text


class Stream(Uncopied):
    """The pieces of a text, one for each step. With `async for` each step runs on a thread.

    close(), the end of `with`, and a loop that is left early remove the request.
    """

    def __init__(self, generator: Generator, request: int, task: Task | None):
        if getattr(generator, "noun", "") != "generator":
            refuse("generator", "a dllm.Generator", generator)
        self._generator, self._request, self._task = generator, whole(request, "request"), task_of(task).task
        self._is_open = True
        self._generation: Generation | None = None

    @property
    def generation(self) -> Generation:
        """The whole answer. FailedPrecondition before the last piece."""
        if self._generation is None:
            raise errors.FailedPrecondition("the stream has no generation before its last piece",
                                            "take all pieces first: for piece in stream: ...")
        return self._generation

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        piece = self._next(self._task)
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        piece = await run_async(self._next, task=self._task)
        if piece is None:
            raise StopAsyncIteration
        return piece

    def _next(self, task: Task | None = None) -> Piece | None:
        """The piece of the next step; None after the last one."""
        with self._generator._turns.take(task):
            return self._step(task) if self._is_open else None

    def _step(self, task: Task | None) -> Piece:
        """Takes a step. A cancelled one leaves the request open, so the stream may continue."""
        try:
            self._generator.step(task)
            text = self._generator.text(self._request, "next")
        except (errors.Cancelled, errors.DeadlineExceeded, KeyboardInterrupt):
            raise
        except BaseException:
            self.close()
            raise
        about = self._generator.describe(self._request)
        piece = Piece(text, self._generator.text(self._request, "canvas"), about["open"], about["steps"])
        if about["finish"] != "open":
            self._generation = generation_of(about)
            self.close()
        return piece

    def close(self) -> None:
        """Removes the request: now, or after the call of another thread. The pieces end."""
        is_open, self._is_open = self._is_open, False
        if is_open:
            self._generator._forget(self._request)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_is_open"):
            self.close()
