"""One request of a queue."""
from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, AsyncIterator, Generator, Iterator

from . import errors
from ._base import Uncopied
from ._lib import lib
from ._values import real, refuse, whole
from .asynchronous import run_async
from .generation import Generation, generation_of
from .stream import Piece
from .task import Task

if TYPE_CHECKING:
    from .queue import Queue


class Ticket(Uncopied):
    """A request that Queue.submit has taken. Any thread may read, wait and cancel.

    generation() or `await ticket` wait for the answer. `for piece in ticket` and `async for` take the
    pieces of the text; one thread reads them. close(), the end of `with`, the end of the pieces, and the
    last reference remove the request.
    """

    def __init__(self, queue: Queue, request: int):
        if getattr(queue, "noun", "") != "queue":
            refuse("queue", "a dllm.Queue", queue)
        if whole(request, "request") < 0:
            raise ValueError(f"request is {request}: a ticket has the number of one request")
        self._queue, self._request, self._is_open = queue, whole(request, "request"), True
        self._version = 1  # of the last piece: 1 is the version of a request that was submitted
        self._generation: Generation | None = None

    @property
    def number(self) -> int:
        """The number of the request, which no other request of the queue has."""
        return self._request

    def wait(self, timeout: float | None = None, task: Task | None = None) -> bool:
        """Waits until the request is over, or for timeout seconds. Returns whether it is over."""
        if self._generation is not None:
            return True
        version, is_over, left = 0, False, timeout
        end = None if timeout is None else monotonic() + real(timeout, "timeout")
        while not is_over and (left is None or not left < 0):
            version, is_over = self._queue._wait(self._request, version, left, task)
            left = None if end is None else end - monotonic()
        return is_over

    def text(self, part: str = "completion") -> str:
        """A part of the text, as of the last step: completion, text (with the prompt), next (what is new since the
        last call) or canvas (with <mask:N> for open positions). Raises the error of the request."""
        return self._queue._text(self._request, part)

    def describe(self) -> dict[str, Any]:
        """The request: phase (waiting, decoding, over), version, finish, ids, seconds_waited, ..."""
        return self._queue._describe(self._request)

    def generation(self, task: Task | None = None) -> Generation:
        """Waits for the end and returns the answer. Raises the error of the request: Cancelled, DeadlineExceeded
        after its timeout, those of Generator.step."""
        if self._generation is None:
            self.wait(task=task)
            self.text()
            self._generation = generation_of(self.describe())
        return self._generation

    def __await__(self) -> Generator[Any, None, Generation]:
        return run_async(self.generation).__await__()

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        piece = self._next()
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        piece = await run_async(self._next)
        if piece is None:
            raise StopAsyncIteration
        return piece

    def _next(self, task: Task | None = None) -> Piece | None:
        """What is new when the request has changed; None after its end."""
        if not self._is_open:
            return None
        self._queue._wait(self._request, self._version, None, task)
        about = self.describe()  # before the text, which is then not older
        try:
            piece = Piece(self.text("next"), self.text("canvas"), about["open"], about["steps"])
        except errors.Error:
            self.close()
            raise
        self._version = about["version"]
        if about["phase"] == "over":
            self._generation = generation_of(about)
            self.close()
        return piece

    def cancel(self) -> None:
        """Ends the request: a caller that reads or awaits it gets Cancelled. One that is over stays as it is."""
        self._queue._cancel(self._request)

    def close(self) -> None:
        """Removes the request, and cancels it when it is not over."""
        is_open, self._is_open = self._is_open, False
        if not is_open:
            return
        try:
            self._queue._remove(self._request)
        except (errors.NotFound, errors.ClosedError):
            pass  # the queue has forgotten it already

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        # The collector calls it inside of any call, whose error stays as it is.
        if lib is not None and getattr(self, "_is_open", False) and not self._queue.closed:
            lib.dllm_queue_remove(self._queue.pointer, self._request, None)
