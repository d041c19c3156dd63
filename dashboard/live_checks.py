"""The live consistency check, asked for by the page and answered in the background by one measuring process.

Nothing here blocks: the page asks, draws what is known, and asks again a little later.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from dashboard.layers import stamp
from profiling.check_report import error_report, reason_of
from profiling.child_process import ChildDied, MeasuringError
from profiling.device_lock import DeviceBusy, Owner
from profiling.layers import is_layer
from profiling.live_check import LiveChecker
from profiling.runs import RunError
from profiling.workload import GridError, Workload

_KEPT_ANSWERS = 64
# A layer that takes longer hangs, and others wait for their turn.
LIMIT_S = 60.0


class Checker(Protocol):
    """What answers: `profiling.live_check.LiveChecker`, or a stand-in for it in a test."""

    def environment(self) -> dict[str, Any]:
        """What it runs on: device, torch's version and threads, and all devices, the best first."""

    def check(
        self, workload: Workload, contender: str, *, batch_first: bool, limit_s: float, self_check: bool
    ) -> dict[str, Any]:
        """The report of a check, with the faults planted to check the checker; blocks, at most that long."""

    def close(self) -> None:
        """Ends the measuring process."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What is known of one check: a report, or why there is none (yet)."""

    report: dict[str, Any] | None = None
    error: str = ""
    busy: Owner | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the answer is still to come."""
        return self.report is None and not self.error and self.busy is None


PENDING = Answer()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A check to make. `stamp` tells one state of a layer's file from another, so that an edit asks anew."""

    workload: Workload
    contender: str
    batch_first: bool
    stamp: tuple[int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """What torch finds on this machine. `device` is what `auto` stands for; `devices` are names, the best first."""

    device: str
    description: str
    threads: int
    torch_version: str
    devices: tuple[str, ...]

    @classmethod
    def from_environment(cls, environment: dict[str, Any]) -> Machine:
        """The machine that a measuring process describes."""
        device = str(environment["device"])
        found = {str(each["name"]): str(each["description"]) for each in environment["devices"]}
        return cls(
            device=device,
            description=found.get(device, device),
            threads=int(environment["torch_threads"]),
            torch_version=str(environment["torch_version"]),
            devices=tuple(found),
        )


class LiveChecks:
    """Answers checks one after another in a thread; the newest workload comes first."""

    def __init__(self, make_checker: Callable[[], Checker] = LiveChecker) -> None:
        self._make_checker = make_checker
        self._checker: Checker | None = None
        self._answers: OrderedDict[Question, Answer] = OrderedDict()
        self._questions: list[Question] = []
        self._machine: Machine | None = None
        self._machine_error = ""
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="live-checks", daemon=True)
        self._thread.start()

    @property
    def machine(self) -> Machine | None:
        """What torch finds here; None until it is known."""
        return self._machine

    @property
    def machine_error(self) -> str:
        """Why that is not known, in one sentence; empty where it is, or will be."""
        return self._machine_error

    def ask(self, workload: Workload, contender: str, *, batch_first: bool = True, again: bool = False) -> Answer:
        """What is known of that check, which is begun where nothing is, or where `again` is set."""
        key = Question(workload=workload, contender=contender, batch_first=batch_first, stamp=stamp(contender))
        if not self._thread.is_alive():
            return Answer(error="the thread that asks for checks has ended; the terminal says why")
        with self._wake:
            known = self._answers.get(key)
            if known is None or again:
                self._answers[key] = known = PENDING
                self._answers.move_to_end(key)
                self._questions = [other for other in self._questions if other != key]
                self._questions.append(key)
                self._wake.notify()
            return known

    def forget_busy(self) -> None:
        """Forgets the checks that a sweep kept from being made, so that they are made when asked for again."""
        with self._wake:
            for key in [key for key, answer in self._answers.items() if answer.busy is not None]:
                del self._answers[key]

    def close(self) -> None:
        """Ends the thread and the measuring process."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(10)

    def _work(self) -> None:
        self._look_around()
        while (key := self._next()) is not None:
            answer = self._answer(key)
            with self._wake:
                self._answers[key] = answer
                while len(self._answers) > _KEPT_ANSWERS:
                    self._answers.popitem(last=False)
        if self._checker is not None:
            self._checker.close()

    def _look_around(self) -> None:
        try:
            self._checker = self._make_checker()
            self._machine = Machine.from_environment(self._checker.environment())
        except (MeasuringError, RunError) as error:
            self._machine_error = _sentence(error)

    def _next(self) -> Question | None:
        with self._wake:
            self._wake.wait_for(lambda: self._closed or self._questions)
            if self._closed:
                return None
            newest = self._questions[-1].workload
            position = next(i for i, question in enumerate(self._questions) if question.workload == newest)
            return self._questions.pop(position)

    def _answer(self, question: Question) -> Answer:
        if self._checker is None or self._machine is None:
            return Answer(error=self._machine_error)
        try:
            how = {"batch_first": question.batch_first, "limit_s": LIMIT_S, "self_check": True}
            return Answer(report=self._checker.check(question.workload, question.contender, **how))
        except DeviceBusy as busy:
            return Answer(busy=busy.owner)
        except ChildDied as death:
            if not is_layer(question.contender):
                return Answer(error=_sentence(death))
            what = f"{question.contender} at {question.workload.label}"
            return Answer(report=error_report(reason_of(death, LIMIT_S), what))
        except (MeasuringError, RunError, GridError) as error:
            return Answer(error=_sentence(error))


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__
