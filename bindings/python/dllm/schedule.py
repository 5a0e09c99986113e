"""Noise schedules: how much is masked at time t, and the weight of the loss."""
from __future__ import annotations

from ctypes import c_double
from typing import Any, NamedTuple, Sequence

from . import _arrays
from ._base import Managed, call, make, options
from ._text import text_bytes


# How a caller gives a schedule of its own; a function is not one of the ways.
OWN = ("Schedule.table(t, alpha) makes a schedule of points, and option schedule_alphas of a decoder "
       "is a list of numbers that falls, such as [1, 0.3, 0]")


class Values(NamedTuple):
    """A schedule at some times: arrays with one number per time."""

    alpha: Any
    dalpha: Any
    weight: Any


class Schedule(Managed):
    """`Schedule("linear")`, or a table: `Schedule.table(t, alpha)`."""

    _release, noun = "dllm_schedule_release", "schedule"

    def __init__(self, name: str = "linear", **settings: Any):
        given = text_bytes(name, "name", OWN)
        with options("schedule:" + name if settings else "schedule", settings) as opts:
            super().__init__(make("dllm_schedule_new", given, opts.pointer))

    @classmethod
    def table(cls, t: Sequence[float], alpha: Sequence[float],
              dalpha: Sequence[float] | None = None,
              weight: Sequence[float] | None = None) -> Schedule:
        """A schedule of points; dalpha and weight are derived when they are not given."""
        needed = [_arrays.list_to_c(t, "f64", "t"), _arrays.list_to_c(alpha, "f64", "alpha")]
        columns = needed + [None if column is None else _arrays.list_to_c(column, "f64", name)
                            for name, column in (("dalpha", dalpha), ("weight", weight))]
        counts = {len(column) for column in columns if column is not None}
        if len(counts) != 1:
            raise ValueError(f"columns of different lengths: {sorted(counts)}")
        made = cls.__new__(cls)
        Managed.__init__(made, make("dllm_schedule_table", *columns, counts.pop()))
        return made

    def eval(self, t: Sequence[float]) -> Values:
        """The schedule at many times, each from 0 to 1. Raises InvalidArgument for another time."""
        times = _arrays.list_to_c(t, "f64", "t")
        rooms = [(c_double * len(times))() for _ in range(3)]
        call("dllm_schedule_eval", self.pointer, times, len(times), *rooms)
        return Values(*(_arrays.from_c(room, "f64", len(times)) for room in rooms))
