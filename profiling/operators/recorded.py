"""What a profiler recorded of calls, as plain events, and the tree that they make: which ran within which. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

# The name of the range that encloses one call, and of the one within it in which the host waits for the device.
CALL = "mha-bench: call"
WAITING = "waiting for the device"

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that ran on the host, by the profiler's clock.

    Attributes:
        name: as torch calls it, such as `aten::mm`.
        start_ns: when it began.
        end_ns: when it ended.
        shapes: of its arguments, in order; empty for one that is no tensor.
        thread: which thread ran it.
        sequence: torch's number that a forward operator and its backward node share; -1 where there is none.
        is_node: whether it is such a backward node, or the engine's work for one.
        device_ns: what the kernels took that it launched itself; None where there is no accelerator.
    """

    name: str
    start_ns: int
    end_ns: int
    shapes: tuple[Shape, ...] = ()
    thread: int = 0
    sequence: int = -1
    is_node: bool = False
    device_ns: int | None = None


@dataclasses.dataclass(eq=False)
class Node:
    """An event with those that ran within it, in order."""

    event: Event
    children: list[Node] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """The event's name."""
        return self.event.name

    @property
    def self_ns(self) -> int:
        """Its time without that of the events within it."""
        return self.event.end_ns - self.event.start_ns - sum(c.event.end_ns - c.event.start_ns for c in self.children)

    def walk(self) -> Iterator[Node]:
        """Itself and all within it, in the order in which they began."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclasses.dataclass(frozen=True)
class Call:
    """One call: how long it took, and the operators that ran meanwhile, outermost ones, on whichever thread."""

    total_ns: int
    roots: list[Node]

    @property
    def outside_ns(self) -> int:
        """The time in which no operator ran."""
        return self.total_ns - _covered_ns([root.event for root in self.roots])

    def walk(self) -> Iterator[Node]:
        """All operators, thread by thread in the order in which they began."""
        for root in self.roots:
            yield from root.walk()


def calls_of(events: Sequence[Event]) -> list[Call]:
    """The calls that the events tell of: for each range named `CALL` what began in its time, on whichever thread."""
    calls = sorted((event for event in events if event.name == CALL), key=lambda event: event.start_ns)
    return [
        Call(
            call.end_ns - call.start_ns,
            _trees([each for each in events if each.name != CALL and call.start_ns <= each.start_ns < call.end_ns]),
        )
        for call in calls
    ]


def _trees(events: Sequence[Event]) -> list[Node]:
    """The outermost events in order, with what ran in the same thread within each."""
    roots: list[Node] = []
    open_nodes: dict[int, list[Node]] = {}
    # Of two that began at once the longer one encloses the other; the order of recording decides between equals.
    for event in sorted(events, key=lambda event: (event.start_ns, -event.end_ns)):
        node, stack = Node(event), open_nodes.setdefault(event.thread, [])
        while stack and stack[-1].event.end_ns <= event.start_ns:
            stack.pop()
        (stack[-1].children if stack else roots).append(node)
        stack.append(node)
    return roots


def _covered_ns(events: Sequence[Event]) -> int:
    """The time in which at least one of the events ran."""
    covered, until = 0, 0
    for event in sorted(events, key=lambda event: event.start_ns):
        covered += max(0, event.end_ns - max(event.start_ns, until))
        until = max(until, event.end_ns)
    return covered
