"""The pass that takes a peak checks itself: what it cannot see makes it refuse, not guess."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from profiling.measuring.devices.memory_events import (
    MARK_BYTES,
    IncompleteEvents,
    between_marks,
    live_bytes,
    memory_events,
    peak_by_events,
    peak_of_events,
)
from profiling.measuring.profile import new_profile

MARK = [MARK_BYTES, -MARK_BYTES]


@pytest.fixture(autouse=True)
def _nothing_left_by_others() -> None:
    """What other tests left in cycles would else be freed in the middle of one of these, whenever Python collects."""
    gc.collect()


def block(num_bytes: int) -> torch.Tensor:
    return torch.empty(num_bytes, dtype=torch.uint8)


# -- a peak -----------------------------------------------------------------------------------------------------------


def test_the_peak_of_events_is_the_highest_sum_on_the_way() -> None:
    assert peak_of_events([5, 7, -7, 3, -8]) == 12
    assert peak_of_events([-11, 5]) == 0
    assert peak_of_events([]) == 0


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_peak_lies_between_the_largest_block_and_all_of_them(blocks: list[int], rng: object) -> None:
    sizes: list[int] = []
    for size in blocks:
        sizes += [size, -size] if rng.random() < 0.5 else [size]  # type: ignore[attr-defined] # a random.Random
    assert max(blocks) <= peak_of_events(sizes) <= sum(blocks)


def test_what_was_freed_on_the_way_counts_only_while_it_lived() -> None:
    def call() -> torch.Tensor:
        first = block(1009)
        del first
        second = block(503)
        return torch.cat([second, second])

    assert peak_by_events(call) == 503 + 2 * 503


def test_the_result_counts_and_what_was_there_before_does_not() -> None:
    x = torch.ones(1013)
    assert peak_by_events(lambda: x[:7]) == 0
    assert peak_by_events(lambda: x.clone()) == 1013 * 4


def test_what_an_earlier_call_left_in_a_cycle_does_not_lower_the_peak() -> None:
    def call() -> None:
        held: list[object] = [block(2003)]
        held.append(held)

    assert [peak_by_events(call) for _ in range(3)] == [2003] * 3


def test_garbage_from_before_does_not_cost_a_second_run() -> None:
    held: list[object] = [block(2003)]
    held.append(held)
    del held
    ran: list[int] = []
    assert peak_by_events(lambda: ran.append(1)) == 0
    assert ran == [1]


def test_what_a_call_leaves_in_a_cycle_is_not_alive_even_where_only_autograd_holds_it() -> None:
    x = torch.ones(1009, requires_grad=True)

    def call() -> None:
        held: list[object] = [x.exp().sum()]  # its graph keeps the exponentials: no tensor in Python shows them
        held.append(held)

    assert peak_by_events(call) == 1009 * 4 + 4


def test_what_a_call_leaves_in_a_cycle_counts_to_its_end_whenever_python_would_collect_it() -> None:
    def call() -> torch.Tensor:
        held: list[object] = [block(2003)]
        held.append(held)
        del held
        many = [[number] for number in range(100_000)]  # enough for Python to look for garbage on the way
        return block(len(many))

    assert peak_by_events(call) == 2003 + 100_000


def test_garbage_collection_is_as_it_was() -> None:
    assert gc.isenabled()
    peak_by_events(lambda: None)
    assert gc.isenabled()
    gc.disable()
    try:
        peak_by_events(lambda: None)
        assert not gc.isenabled()
    finally:
        gc.enable()


# -- what a call keeps ------------------------------------------------------------------------------------------------


def test_a_call_that_keeps_more_each_time_is_measured_with_what_it_keeps() -> None:
    kept: list[torch.Tensor] = []

    def call() -> torch.Tensor:
        kept.append(block(3001))
        return block(503)

    assert [peak_by_events(call) for _ in range(2)] == [3504, 3504]


def test_a_call_that_replaces_what_it_kept_is_measured_as_one_that_did_so_before() -> None:
    class Keeping:
        """As a layer that keeps its last weights: the block from before is freed once the new one is there."""

        last: torch.Tensor

        def __call__(self) -> torch.Tensor:
            self.last = block(3001)
            return block(3253)

    call = Keeping()
    assert peak_by_events(call) == 3001 + 3253  # nothing to replace yet
    # The old block is gone when the second is taken: 3253 beyond what was live.
    assert [peak_by_events(call) for _ in range(2)] == [3253, 3253]


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_memory_taken_where_the_profile_does_not_see_it_is_refused() -> None:
    kept: list[torch.Tensor] = []
    with pytest.raises(IncompleteEvents, match=r"add up to \+0 bytes, but what is alive grew by \+5003"):
        peak_by_events(lambda: in_a_thread(lambda: kept.append(block(5003))))


def test_memory_freed_that_was_taken_before_the_profile_is_refused() -> None:
    kept = [block(5003) for _ in range(4)]
    with pytest.raises(IncompleteEvents, match=r"add up to \+0 bytes, but what is alive grew by -5003"):
        peak_by_events(kept.pop)
    assert len(kept) == 1, "once, and once more after a run within the profile"


def test_what_others_left_in_old_cycles_is_not_freed_by_a_call_that_collects_garbage() -> None:
    class Left:
        def __init__(self) -> None:
            self.me, self.block = self, block(5003)

    left: list[Left] = []
    peak_by_events(lambda: left.append(Left()))  # a block that a profile has seen taken is one that it sees freed
    gc.collect()  # now of an old generation, so that no quick look finds it
    left.clear()

    def call() -> torch.Tensor:
        gc.collect()
        return block(3001)

    assert peak_by_events(call) == 3001


def test_memory_that_only_autograd_holds_is_refused() -> None:
    x, losses = torch.ones(1009, requires_grad=True), []

    def call() -> None:
        losses.append(x.exp().sum())  # the graph keeps the exponentials: no tensor in Python shows them

    with pytest.raises(IncompleteEvents, match=r"add up to \+4040 bytes, but what is alive grew by \+4"):
        peak_by_events(call)


def test_a_profile_without_memory_events_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiling.measuring.devices.memory_events.new_profile", lambda memory: new_profile())
    with pytest.raises(IncompleteEvents, match="0 of the 2 blocks"):
        peak_by_events(lambda: block(1009))


def test_an_error_of_the_call_is_the_calls() -> None:
    def fail() -> None:
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        peak_by_events(fail)
    assert gc.isenabled()


def test_only_what_lies_between_the_marks_is_the_calls() -> None:
    assert between_marks([3, *MARK, 5, -5, 7, *MARK, 11]) == [5, -5, 7]
    assert between_marks([*MARK, *MARK]) == []
    for wrong in ([], MARK, [*MARK, *MARK, *MARK], [MARK_BYTES, 3, -MARK_BYTES, *MARK]):
        with pytest.raises(IncompleteEvents, match="of the 2 blocks that enclose"):
            between_marks(wrong)


def test_events_are_in_the_order_of_time_and_those_of_one_nanosecond_as_recorded() -> None:
    def event(name: str, start: int, size: int) -> SimpleNamespace:
        return SimpleNamespace(name=lambda: name, start_ns=lambda: start, nbytes=lambda: size)

    recorded = [
        event("[memory]", 7, 11),
        event("aten::empty", 5, 0),
        event("[memory]", 5, 3),
        event("[memory]", 7, -11),
        event("[memory]", 6, 17),
    ]
    results = SimpleNamespace(events=lambda: recorded)
    assert memory_events(SimpleNamespace(kineto_results=results)) == [3, 17, 11, -11]


def test_live_bytes_count_each_storage_once_and_whole() -> None:
    before = live_bytes()
    one = torch.zeros(1009)
    views = [one[:3], one.view(1009, 1), one.detach()]
    assert live_bytes() - before == 1009 * 4
    sparse, meta = torch.zeros(3, 5).to_sparse(), torch.empty(7919, device="meta")
    with FakeTensorMode():
        fake = torch.empty(7907)  # as a compiler makes them: says that it is on the CPU, and holds nothing
    # A sparse tensor has no storage of its own; what it is made of no Python object shows.
    assert live_bytes() - before == 1009 * 4
    del one
    assert live_bytes() - before == 1009 * 4
    del views, sparse, meta, fake
    assert live_bytes() == before
