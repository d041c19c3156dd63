"""The answers to the last few questions, by question, for all threads of the server."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")


class KeptAnswers(Generic[Question, Answer]):
    """What questions came to; the one that was not asked for longest is forgotten first.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Question, Answer] = OrderedDict()

    def of(self, question: Question) -> Answer | None:
        """What it came to; None where it was not asked yet, or so long ago that it is forgotten."""
        with self._lock:
            if question in self._kept:
                self._kept.move_to_end(question)
            return self._kept.get(question)

    def all(self) -> list[tuple[Question, Answer]]:
        """Every question that is kept, with its answer."""
        with self._lock:
            return list(self._kept.items())

    def put(self, question: Question, answer: Answer) -> None:
        """Keeps an answer, in place of what the question came to before."""
        with self._lock:
            self._kept[question] = answer
            self._kept.move_to_end(question)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, question: Question) -> None:
        """Keeps nothing of that question."""
        with self._lock:
            self._kept.pop(question, None)
