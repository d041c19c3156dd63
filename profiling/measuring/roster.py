"""Who is still in a workload, and what became of each: a contender that raises costs its own row and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from profiling.measuring.contenders.known import Contender
from profiling.measuring.contenders.process_settings import process_settings, processes_left, put_back, threads_now
from profiling.measuring.failures import failure
from profiling.measuring.garbage import forget
from profiling.runs import now
from profiling.settings import CLONE

T = TypeVar("T")

Say = Callable[[str, str], None]

_BESIDE = "where they are not idle, every contender of this point is slower. Measure without that layer to be sure"


@dataclasses.dataclass
class Row:
    """What became of one contender: its cells, by the names of `profiling.columns`.

    `recipe` is that of its `Contender`, if it has one and was measured.
    """

    cells: dict[str, Any]
    samples_s: list[float]
    recipe: dict[str, Any] | None = None


class Roster:
    """The contenders of one workload on their way through the passes.

    Args:
        source_hashes: contender → hash of its source, in the order of the rows.
        own: those among them that are layers of one's own.
        say: told the pass and the contender before each thing that could take the process down.

    Attributes:
        live: who is still in, clones among them.
        rows: what became of each so far.
        running: who ran last.
    """

    def __init__(self, source_hashes: Mapping[str, str | None], own: Collection[str], say: Say) -> None:
        self._own, self._say = own, say
        self.live: dict[str, Contender] = {}
        self.rows = {name: Row({"status": "ok", "source_hash": hash_}, []) for name, hash_ in source_hashes.items()}
        self.names = list(source_hashes)
        self.running = ""
        self._settings, self._threads = process_settings(), threads_now()
        self._changers: set[str] = set()

    def attempt(self, phase: str, name: str, step: Callable[[str], T]) -> T | None:
        """The step's result, or None where it raised: then the contender is out, and its row says why.

        Raises:
            ProcessSpoiled: it did to this process what cannot be undone.
        """
        self.say_running(phase, name)
        try:
            result = step(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a layer raises is the layer's, also an exit: it costs its own row
            self.fail(name, error)
            return None
        self._settle(name)
        return result

    def say_running(self, phase: str, name: str) -> None:
        """Says who is about to run; a clone runs in the name of its layer."""
        self.running = name
        self._say(phase, name.removeprefix(CLONE))

    def fail(self, name: str, error: BaseException, *, is_shared: bool = False) -> None:
        """Takes a contender out, its clone with it; its row says why. `is_shared`: what raised was not its own code."""
        self.live.pop(name, None)
        self.live.pop(CLONE + name, None)
        status, reason = failure(error, is_own=name in self._own and not is_shared)
        if name in self.rows:
            kept = {"source_hash": self.rows[name].cells["source_hash"]}
            self.rows[name] = Row({"status": status, "status_reason": reason, "measured_at": now(), **kept}, [])
        forget(error, give_back=status == "oom")
        self._settle(name)

    def warn(self, name: str, text: str) -> None:
        """Adds a sentence to a row's warnings."""
        said = self.rows[name].cells.get("warnings") or ""
        if text not in said:
            self.rows[name].cells["warnings"] = f"{said}; {text}" if said else text

    def warn_all(self, text: str | None) -> None:
        """Tells it in the row of every contender, if there is anything to tell."""
        for name in self.names if text else ():
            self.warn(name, text or "")

    def tell_processes(self) -> None:
        """Tells in every row of the processes that layers of one's own have left running beside what is timed."""
        count = processes_left() if self._own else 0
        if count:
            self.warn_all(f"layers left {count} process{'es' * (count > 1)} running: {_BESIDE}")

    def settle_all(self) -> None:
        """Undoes what was done to the process while all took turns, of which nobody can tell who did it."""
        changed = put_back(self._settings) if self._own else ""
        if changed:
            self.warn_all(f"a layer changed its process while it was timed ({changed}): put back after it")

    def _settle(self, name: str) -> None:
        """Undoes what a layer of one's own has done to the process for those that come after it, and says so."""
        name = name.removeprefix(CLONE)
        if name not in self._own:
            return
        changed = put_back(self._settings)
        if changed and name not in self._changers:
            self._changers.add(name)  # once: it does so at each call
            self.warn(name, f"changed its process ({changed}): put back after it")
        new = threads_now() - self._threads
        self._threads |= new
        if new:
            self.warn_all(f"{name} left {len(new)} thread{'s' * (len(new) > 1)} running: {_BESIDE}")
