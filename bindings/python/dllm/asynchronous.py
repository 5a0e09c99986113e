"""Long calls under asyncio: on a thread, cancelled with the asyncio task that waits for them."""
from __future__ import annotations

import asyncio
from typing import Any, Callable, TypeVar

from ._base import task_of
from ._values import function as checked_function
from .task import Task

Result = TypeVar("Result")


async def run_async(function: Callable[..., Result], *args: Any, task: Task | None = None,
                    **settings: Any) -> Result:
    """`await run_async(trainer.run, loader, 100)`: calls a function that takes a task, without stopping the loop.

    When the waiting asyncio task is cancelled the call is cancelled too, and CancelledError comes out after the
    call has ended, so that its objects may be used again. Callbacks run on the thread of the call.
    """
    checked_function(function, "function")
    stop = Task() if task is None else task_of(task).task
    call = asyncio.ensure_future(asyncio.to_thread(function, *args, task=stop, **settings))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        stop.cancel()
        while not call.done():
            try:
                await asyncio.wait([call])
            except asyncio.CancelledError:
                pass  # the call is cancelled already
        if not call.cancelled():
            call.exception()  # else asyncio logs it as never retrieved
        raise
