"""Searches that measure for minutes, in the background: for a crossover, and for the longest sequence that fits."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dashboard.background import PROGRAM, Background, Slot, Tenant
from dashboard.kept_answers import KeptAnswers
from profiling.runs import now

MOST_ANSWERS = 16
CROSSOVER, FITS = "crossover", "fits"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchQuestion:
    """A search to make.

    Attributes:
        arguments: the words after `python -m profiling`, of which the first is `CROSSOVER` or `FITS`.
        contenders: whose.
        device: where it measures.
        stamp: tells one state of the layers' files from another, so that an edit asks anew.
    """

    arguments: tuple[str, ...]
    contenders: tuple[str, ...]
    device: str
    stamp: tuple[object, ...] = ()

    @property
    def kind(self) -> str:
        """What is searched."""
        return self.arguments[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """What a search came to: the object that the command printed, or why there is none; and when (ISO 8601, UTC)."""

    told: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    error: str = ""
    at: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The answer in sentences."""
        return tuple(map(str, self.told.get("words", ())))


class Search(Background):
    """A search that goes on."""

    def __init__(self, question: SearchQuestion, *, command: Sequence[str]) -> None:
        self.question = question
        names = " and ".join(question.contenders)
        whats = {CROSSOVER: f"the crossover of {names}", FITS: f"the longest sequence of {names}"}
        super().__init__(
            command, self._arguments, what=f"{whats[question.kind]} is being searched for", noun="the search"
        )

    def _arguments(self, _: Path) -> tuple[str, ...]:
        return self.question.arguments

    def found(self) -> SearchAnswer:
        """What came of it, once it has ended; one that was stopped tells what it knew by then."""
        try:
            told = json.loads(self.answer())
            if isinstance(told, dict) and isinstance(told.get("words"), list):
                return SearchAnswer(told=told, at=now())
        except (OSError, ValueError):
            pass
        return SearchAnswer(error=self.last_words, at=now())


class Searches(Tenant[Search]):
    """The searches of this server: at most one going on, and what came of the last few.

    Args:
        command: what the arguments of a question are given to.
        slot: where it runs; shared with whatever else measures in the background.
    """

    def __init__(self, command: Sequence[str] = PROGRAM, slot: Slot | None = None) -> None:
        super().__init__(Search, slot)
        self._command = tuple(command)
        self._answers: KeptAnswers[SearchQuestion, SearchAnswer] = KeptAnswers(MOST_ANSWERS)

    def answer_to(self, question: SearchQuestion) -> SearchAnswer | None:
        """What a question came to; None where it was not asked yet, or so long ago that it is forgotten."""
        return self._answers.of(question)

    def start(self, question: SearchQuestion) -> None:
        """Begins to search.

        Raises:
            JobError: something is being searched, profiled or measured already, or no process can be started.
        """
        self._slot.start(lambda: Search(question, command=self._command), question.device, self._keep)

    def refusal(self) -> str:
        """Why no sweep is to begin now, as a sentence goes on; empty where one may."""
        running = self.running
        return "" if running is None else f"{running.what}; stop that or wait for its end"

    def _keep(self, search: Search) -> None:
        found = search.found()
        if search.is_stopped and found.error:  # by whoever reads this: no news
            self._answers.forget(search.question)
        else:
            self._answers.put(search.question, found)
