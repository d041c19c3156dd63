"""The longest sequence that fits: searched by trying sizes, from a safe one upwards."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from profiling.child_process import ChildStopped, MeasuringError
from profiling.costs import ELEMENT_BYTES, MIB, NUM_PROJECTIONS, call_flop
from profiling.device_lock import DeviceBusy
from profiling.estimate import call_seconds
from profiling.laws.fit_search import OK, FitPlan, Tried, next_size, predicted_size
from profiling.layers import inner_of
from profiling.memory_estimate import CHILD_BASE_MIB, SCORE_COPIES, TOKEN_COPIES, TOKENS_PER_LAYER
from profiling.runs import RunError
from profiling.stopping import StopSwitch
from profiling.units import format_duration
from profiling.workload import MAX_SIZE, Workload

# Of the memory that is free: the rest is the system's, and everyone else's.
SHARE_OF_FREE = 0.9
# Of the room: a call that is guessed to need so little is safe, however wrong the guess.
SAFE_SHARE = 0.02
# A call that is guessed to take so long at most is a safe one to begin with, too.
SAFE_SECONDS = 0.5
# A layer and what it is copied from.
WEIGHT_COPIES = 2.0
# Calls that a size takes: the first one, and one whose memory is counted.
CALLS_PER_SIZE = 2.5
# Of a compiled layer: two while it compiles come before them.
CALLS_PER_COMPILED_SIZE = 4.5

# Tries a size, and says what became of it.
Trier = Callable[[int], Tried]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LargestFit:
    """The longest sequence that fits, as far as it was searched.

    Attributes:
        contender: whose.
        workload: all else; its seq_len means nothing.
        tried: what became of each size, by size.
        predicted: the size that was predicted beforehand; None where nothing was.
        source: from what, in words.
        law_predicted: the size that the memory law of those that ran, the largest left out, predicts.
        room_mib, free_mib: what the process might take beside torch, of what was free; None where that is unknown.
        memory_mib: what the process might hold in all.
        is_asked: whether someone asked for that limit.
        stopped: why the search ended before its time; empty where it did not.
        high: the longest sequence of interest.
    """

    contender: str
    workload: Workload
    tried: tuple[Tried, ...]
    predicted: int | None
    source: str
    law_predicted: int | None = None
    room_mib: float | None = None
    free_mib: float | None = None
    memory_mib: float | None = None
    is_asked: bool = False
    stopped: str = ""
    high: int = MAX_SIZE

    @property
    def fits(self) -> int | None:
        """The longest sequence that ran; None where none did."""
        return max((each.size for each in self.tried if each.status == OK), default=None)

    @property
    def failed(self) -> Tried | None:
        """The shortest longer one that did not run; None where none was tried."""
        return next((each for each in self.tried if each.status != OK and each.size > (self.fits or 0)), None)


def guessed_mib(workload: Workload, contender: str, heap: str) -> float:
    """A guess at what a process takes for one contender's calls, beside what it has when torch is loaded.

    The figures are those of `profiling.memory_estimate`, for one contender alone, without an oracle.
    """
    b, s, d, h = workload.batch_size, workload.seq_len, workload.d_model, workload.num_heads
    elements = (TOKEN_COPIES[workload.mode] + TOKENS_PER_LAYER) * b * s * d + WEIGHT_COPIES * NUM_PROJECTIONS * d * d
    if not inner_of(contender).endswith("-fused"):
        elements += SCORE_COPIES[heap][workload.mode] * b * h * s * s
    return elements * ELEMENT_BYTES[workload.dtype] / MIB


def guessed_size(workload: Workload, contender: str, heap: str, room_mib: float, most: int = MAX_SIZE) -> int:
    """The longest sequence, up to `most`, for which the guess stays within the room; 0 where it never does."""
    return _longest(workload, most, lambda longer: guessed_mib(longer, contender, heap) <= room_mib)


def safe_size(workload: Workload, contender: str, heap: str, room_mib: float) -> int:
    """A sequence that takes little of the room and little time, however wrong both guesses are; 0 where none does."""
    most = _longest(workload, MAX_SIZE, lambda longer: call_seconds(longer) <= SAFE_SECONDS)
    return guessed_size(workload, contender, heap, SAFE_SHARE * room_mib, most)


def _longest(workload: Workload, most: int, is_within: Callable[[Workload], bool]) -> int:
    """The longest sequence, up to `most`, of which that holds; of longer ones it holds the less."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        longer = dataclasses.replace(workload, seq_len=middle)
        low, high = (middle, high) if is_within(longer) else (low, middle - 1)
    return low


def room_of(memory_mib: float | None, base_mib: float | None = None) -> float | None:
    """What a layer, its input and its call may take of what a process may hold in all; None where that is unknown.

    Args:
        memory_mib: what the process may hold.
        base_mib: what it holds with torch loaded; None for the figure of `profiling.memory_estimate`.
    """
    return None if memory_mib is None else max(0.0, memory_mib - (CHILD_BASE_MIB if base_mib is None else base_mib))


def find_largest(
    contender: str,
    workload: Workload,
    plan: FitPlan,
    attempt: Trier,
    *,
    heap: str,
    room_mib: float | None,
    free_mib: float | None = None,
    memory_mib: float | None = None,
    is_asked: bool = False,
    predicted: int | None = None,
    source: str = "",
    starts_there: bool = False,
    limit_s: float | None = None,
    budget_s: float | None = None,
    stop: StopSwitch | None = None,
    on_tried: Callable[[Tried], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> LargestFit:
    """Tries sizes until it is known what fits, the time is spent or someone asks to stop; then tells what is known.

    Args:
        contender, workload: what is tried; the workload's seq_len means nothing.
        plan: what is searched, and how exactly.
        attempt: tries a size.
        heap: `pinned` or `as-is`, for the guess.
        room_mib: what a process may take; None where that is unknown.
        free_mib, memory_mib, is_asked: as in `LargestFit`; they are only told.
        predicted: the size that something else predicts, such as a run's law, as `source` says.
        source: from what; the guess of `memory_estimate` is taken where nothing is predicted.
        starts_there: whether the search starts at the predicted size: one that is refused what does not fit may.
        limit_s: a size that would take longer, by the time of the one before, is not tried.
        budget_s: seconds after which no further size is begun.
        stop: a switch by which someone can end the search.
        on_tried: told what became of each size.
        clock: seconds; whatever moves in a test.
    """
    stop, began = stop or StopSwitch(), clock()
    foretold = predicted if starts_there else None
    start = plan.low if room_mib is None else safe_size(workload, contender, heap, room_mib)
    if predicted is None and room_mib is not None:
        predicted = guessed_size(workload, contender, heap, room_mib)
        source = "from its shapes"
    tried: list[Tried] = []
    ended = ""
    while (size := next_size(tried, plan, start, room_mib, foretold=foretold)) is not None:
        ended = _too_long(size, workload, tried, limit_s)
        if not ended and budget_s is not None and clock() - began >= budget_s:
            ended = f"the {budget_s:g} s for it were spent"
        if ended:
            break
        try:
            found = attempt(size)
        except ChildStopped:
            ended = stop.reason
            break
        except (MeasuringError, RunError, DeviceBusy) as error:
            if not tried:
                raise
            ended = str(error)
            break
        tried.append(found)
        on_tried(found)
        if stop.is_requested():
            ended = stop.reason
            break
    if not ended and len(tried) >= plan.max_sizes:
        ended = f"the {plan.max_sizes} sizes that it may try were tried"
    # From those below the largest, which holds it to what was seen.
    shorter = sorted((each for each in tried if each.status == OK), key=lambda each: each.size)[:-1]
    return LargestFit(
        contender=contender,
        workload=workload,
        tried=tuple(sorted(tried, key=lambda each: each.size)),
        predicted=predicted,
        source=source,
        law_predicted=predicted_size(shorter, room_mib),
        room_mib=room_mib,
        free_mib=free_mib,
        memory_mib=memory_mib,
        is_asked=is_asked,
        stopped=ended,
        high=plan.high,
    )


def _too_long(size: int, workload: Workload, tried: list[Tried], limit_s: float | None) -> str:
    """Why a size is not tried: by the operations it would take longer than a size may."""
    timed = [each for each in tried if each.call_s]
    if limit_s is None or not timed:
        return ""
    last = max(timed, key=lambda each: each.size)
    more = call_flop(dataclasses.replace(workload, seq_len=size)) / call_flop(
        dataclasses.replace(workload, seq_len=last.size)
    )
    num_calls = CALLS_PER_SIZE if last.compile_s is None else CALLS_PER_COMPILED_SIZE
    seconds = (last.call_s or 0.0) * more * num_calls + (last.compile_s or 0.0)
    if seconds <= limit_s:
        return ""
    return f"{size:,} would take about {format_duration(seconds)}, and a size may take {format_duration(limit_s)}"
