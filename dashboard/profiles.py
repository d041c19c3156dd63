"""Has operators profiled and traced in the background, and keeps the newest answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from dashboard.background import PROGRAM, Background, Slot, Tenant
from dashboard.kept_answers import KeptAnswers
from profiling.operators.profiler import MAX_TRACE_CALLS
from profiling.operators.report_reading import profile_from_report
from profiling.operators.result import OperatorProfile

MOST_ANSWERS, MOST_TRACES = 16, 2
_TRACE = "trace.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A profile to make.

    Attributes:
        arguments: the words after `python -m profiling`; those of the answer's form aside.
        contenders: in the order in which they are shown.
        device: where it runs.
        stamp: tells one state of the layers' files from another, so that an edit asks anew.
    """

    arguments: tuple[str, ...]
    contenders: tuple[str, ...]
    device: str
    stamp: tuple[object, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What a question came to: a profile, or the sentence that says why there is none."""

    profile: OperatorProfile | None = None
    error: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trace:
    """What a trace came to: its text for Chrome or Perfetto, or the sentence that says why there is none."""

    text: bytes = b""
    error: str = ""


class Running(Background):
    """A profile, or a trace, that is being made."""

    def __init__(self, question: Question, *, is_trace: bool, command: Sequence[str]) -> None:
        self.question, self.is_trace = question, is_trace
        what = f"{' and '.join(question.contenders)} are being profiled"
        super().__init__(command, self._arguments, what=what, noun="the profile")

    def _arguments(self, folder: Path) -> list[str]:
        asked = ["--iterations", str(MAX_TRACE_CALLS), "--trace", str(folder / _TRACE)]
        return [*self.question.arguments, *(asked if self.is_trace else ["--trace-size"])]

    def profile(self) -> Answer:
        """What came of it, once it has ended."""
        try:
            return Answer(profile=profile_from_report(json.loads(self.answer())))
        except (OSError, ValueError):
            return Answer(error=self.last_words)

    def trace(self) -> Trace:
        """The trace that it has written, once it has ended."""
        try:
            return Trace(text=(self.folder / _TRACE).read_bytes())
        except OSError:
            return Trace(error=self.last_words)


class Profiles(Tenant[Running]):
    """The profiles of this server: at most one being made, and what came of the last few questions.

    Args:
        command: what the arguments of a question are given to.
        slot: where it runs; shared with whatever else measures in the background.
    """

    def __init__(self, command: Sequence[str] = PROGRAM, slot: Slot | None = None) -> None:
        super().__init__(Running, slot)
        self._command = tuple(command)
        self._answers: KeptAnswers[Question, Answer] = KeptAnswers(MOST_ANSWERS)
        self._traces: KeptAnswers[Question, Trace] = KeptAnswers(MOST_TRACES)

    def answer_to(self, question: Question) -> Answer | None:
        """What a question came to; None where it was not asked yet, or so long ago that it is forgotten."""
        return self._answers.of(question)

    def trace_of(self, question: Question) -> Trace | None:
        """The trace of what was asked for, where one was made."""
        return self._traces.of(question)

    def was_edited(self, question: Question) -> bool:
        """Whether the same was profiled with files of another state."""
        return any(
            each.arguments == question.arguments and each.stamp != question.stamp and answer.profile is not None
            for each, answer in self._answers.all()
        )

    def start(self, question: Question, *, is_trace: bool = False) -> None:
        """Has it profiled, or traced.

        Raises:
            JobError: something is being profiled or measured already, or no process can be started.
        """
        self._slot.start(
            lambda: Running(question, is_trace=is_trace, command=self._command), question.device, self._keep
        )

    def close(self) -> None:
        """Ends what is being made, and waits a moment for that."""
        self._slot.close()

    def _keep(self, running: Running) -> None:
        if running.is_stopped:
            return
        if running.is_trace:
            self._traces.put(running.question, running.trace())
            return
        self._answers.put(running.question, running.profile())
        self._traces.forget(running.question)  # of another profile by now
