"""How exactly each size of a law was timed: what its replicates say of each other's times. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

# The variance of a median of many normal values, over that of their mean; of few values it is less.
MEDIAN_OVER_MEAN = math.pi / 2
# Blocks, vectors and caches make a layer's times uneven by as much from size to size, however often they are measured.
UNEVEN = 0.01

_Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class SizeTimes:
    """The times of the sizes of a law, and how far they may be off.

    Attributes:
        logs: the natural logarithm of each time.
        error: the deviation of each, relative; None where no two replicates timed every size.
        freedom: the degrees of freedom behind the error; 0 where there is none.
        num_replicates: how many the error rests on.
    """

    logs: _Array
    error: float | None = None
    freedom: int = 0
    num_replicates: int = 0

    def last(self, count: int) -> SizeTimes:
        """The same of the last sizes alone; the error stays that of all of them."""
        return dataclasses.replace(self, logs=self.logs[-count:])


def size_times(values: Sequence[float], replicates: Sequence[Mapping[int, float]] = ()) -> SizeTimes:
    """The times by the replicates that timed every size; by `values` alone where there are fewer than two of them.

    By what a whole replicate is slower, no exponent changes, so it is taken out of its times first; then the median of
    each size speaks. The error is one for all sizes: with 3 to 10 replicates each its own would be a guess.

    Args:
        values: the time of each size, all replicates joined; above 0.
        replicates: of each size, number of the replicate → its time.
    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    complete = sorted(set.intersection(*map(set, replicates))) if replicates else []
    if len(complete) < 2 or len(values) < 2:
        return SizeTimes(logs)
    times = np.log(np.array([[of_size[number] for number in complete] for of_size in replicates], dtype=np.float64))
    slower = np.median(times - np.median(times, axis=1, keepdims=True), axis=0)
    left = times - times.mean(axis=1, keepdims=True) - times.mean(axis=0, keepdims=True) + times.mean()
    num_sizes, count = times.shape
    freedom = (num_sizes - 1) * (count - 1)
    variance = float(np.square(left).sum()) / freedom * (MEDIAN_OVER_MEAN if count > 2 else 1.0) / count
    return SizeTimes(np.median(times - slower, axis=1), math.sqrt(variance + UNEVEN**2), freedom, count)
