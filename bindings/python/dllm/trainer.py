"""Train a model."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping

from ._base import Managed, call, handle, make, options, task_of
from ._text import path_bytes, text_bytes
from ._values import real, whole
from .batch import Batch, as_batch
from .event import Callback, run_with
from .loader import Loader
from .model import Model
from .objective import Objective
from .task import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import TrainerSettings


class Trainer(Managed):
    """`Trainer(model, Objective("mdlm"), lr=1e-3)`. help(dllm.TrainerSettings) lists the keywords."""

    _release, noun = "dllm_trainer_release", "trainer"

    def __init__(self, model: Model, objective: Objective, **settings: Unpack[TrainerSettings]):
        with options("trainer", settings) as opts:
            super().__init__(make("dllm_trainer_new", handle(model, Model),
                                  handle(objective, Objective), opts.pointer))

    def step(self, rows: Batch | Mapping[str, Any], task: Task | None = None) -> float:
        """One optimizer step; the loss before the update, in nats.

        A step that raises changes no weight. Raises InvalidArgument for a missing array, Aborted for a
        loss that is not finite, ResourceExhausted when it does not fit into memory, Cancelled.
        """
        batch = as_batch(rows)
        return self._real("dllm_trainer_step", batch.pointer, task_of(task))

    def accumulate(self, rows: Batch | Mapping[str, Any], task: Task | None = None) -> None:
        """Adds the gradients of one batch to the sum, without an update: see apply(). Raises as
        step() does."""
        batch = as_batch(rows)
        call("dllm_trainer_accumulate", self.pointer, batch.pointer, task_of(task))

    def apply(self, task: Task | None = None) -> float:
        """Updates with the gradients that accumulate() summed; their mean loss in nats. Raises as step() does."""
        return self._real("dllm_trainer_apply", task_of(task))

    def sync(self) -> None:
        """Waits for steps and a checkpoint that run in the background. Raises the first failure, once."""
        call("dllm_trainer_sync", self.pointer)

    def run(self, loader: Loader, steps: int, callback: Callback | None = None,
            task: Task | None = None) -> None:
        """Takes this many more steps; callback gets every event and may return dllm.STOP.

        The task counts steps. Raises OutOfRange when the data ends first, what the callback raises, and
        what step() raises.
        """
        run_with("dllm_trainer_run", callback, self.pointer, handle(loader, Loader), whole(steps, "steps"),
                 after=(task_of(task),))

    def eval(self, loader: Loader, max_batches: int = 8, task: Task | None = None) -> float:
        """The mean loss over batches, in nats; nothing is changed but the loader's position. Raises OutOfRange
        when there is no batch, Cancelled."""
        return self._real("dllm_trainer_eval", handle(loader, Loader), whole(max_batches, "max_batches"), task_of(task))

    def metric(self, key: str) -> float:
        """A number of the last step: "step", "loss" (nats), "lr", "grad_norm", "tokens", "tokens_per_second",
        "mfu", "memory" (bytes), "compiles", "skipped", "input_wait" and "rank_wait" (seconds), ...
        Raises NotFound; the hint names the nearest."""
        return self._real("dllm_trainer_metric", text_bytes(key, "key"))

    def describe(self) -> dict[str, Any]:
        """All metrics with their units, the options, the state arrays of the optimizer."""
        return self._json("dllm_trainer_describe")

    def set(self, key: str, value: float) -> None:
        """Changes "lr", "weight_decay" or "clip" between steps."""
        call("dllm_trainer_set_f64", self.pointer, text_bytes(key, "key"), real(value, "value"))

    def add_sink(self, kind: str, target: str | os.PathLike[str] | None = None,
                 **settings: Any) -> None:
        """Writes every event to a "jsonl" or "csv" file, a "tensorboard" folder or the "console"."""
        with options("sink", settings) as opts:
            call("dllm_trainer_add_sink", self.pointer, text_bytes(kind, "kind"),
                 None if target is None else path_bytes(target, "target"), opts.pointer)

    def model(self, role: str = "live") -> Model:
        """The model that is trained ("live"), or its moving average as a copy ("ema"). Raises
        FailedPrecondition without an average."""
        return Model._wrap(make("dllm_trainer_model", self.pointer, text_bytes(role, "role")))
