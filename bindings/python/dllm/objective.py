"""How a batch is corrupted and how the loss is computed."""
from __future__ import annotations

from typing import Any, Mapping

from ._base import Managed, handle, make, options, pointer_of, task_of
from ._text import text_bytes
from ._values import whole
from .batch import Batch, as_batch
from .model import Model
from .schedule import Schedule
from .task import Task


class Objective(Managed):
    """`Objective("mdlm")`; dllm.names("objective") lists them."""

    _release, noun = "dllm_objective_release", "objective"

    def __init__(self, name: str, schedule: Schedule | None = None, **settings: Any):
        given = text_bytes(name, "name")
        with options("objective:" + name if settings else "objective", settings) as opts:
            super().__init__(make("dllm_objective_new", given, pointer_of(schedule, Schedule),
                                  opts.pointer))

    def prepare(self, rows: Batch | Mapping[str, Any], seed: int = 0, step: int = 0,
                model: Model | None = None) -> Batch:
        """Draws the noise of one step: ids with masks, targets, weights. model: its mask token,
        shift and vocabulary are used; without one they are options of the objective."""
        batch = as_batch(rows)
        return Batch._wrap(make("dllm_objective_prepare", self.pointer, pointer_of(model, Model),
                                batch.pointer, whole(seed, "seed"), whole(step, "step")))

    def loss(self, model: Model, rows: Batch | Mapping[str, Any], seed: int = 0,
             task: Task | None = None) -> float:
        """The loss of one batch in nats; nothing is changed."""
        batch = as_batch(rows)
        return self._real("dllm_objective_loss", handle(model, Model), batch.pointer, whole(seed, "seed"),
                          task_of(task))

    def row_losses(self, model: Model, rows: Batch | Mapping[str, Any], seed: int = 0,
                   task: Task | None = None) -> Batch:
        """The loss of every row for itself: arrays "sums" in nats and "counts" (trained tokens)."""
        batch = as_batch(rows)
        return Batch._wrap(make("dllm_objective_row_losses", self.pointer, handle(model, Model),
                                batch.pointer, whole(seed, "seed"), task_of(task)))
