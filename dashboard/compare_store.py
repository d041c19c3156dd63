"""Comparisons of runs, each made once for the files as they are, in a thread: a big run takes seconds to be read."""

from __future__ import annotations

import dataclasses
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.newest import Newest, file_stamp
from profiling.compare.comparing import Comparison, compare_sides
from profiling.compare.sides import CompareError, Side, read_side
from profiling.runs import MEASUREMENTS_FILE, Run, RunError, results_dir

# Of which the tables are kept: the two that are looked at, and one before.
SIDES_KEPT = 3
COMPARISONS_KEPT = 3
# What most comparisons take less than: waited for, so that their page is drawn at once.
WAIT_S = 0.4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """One side as it is asked for; equal as long as nothing of it has changed.

    Attributes:
        folder: where the run lies.
        label: what it is called.
        stamp: of what is read of it.
    """

    folder: Path
    label: str
    stamp: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be compared, and how: as `profiling.compare.comparing.compare_runs` takes it."""

    base: Given
    new: Given
    fail_above: float
    anyway: bool


class Comparing:
    """A comparison that is being made, or is there; its future raises what `compare_runs` does."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.future: Future[Comparison] = Future()
        self.began = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Waits for the answer; False where it has not come."""
        try:
            self.future.exception(seconds)
        except TimeoutError:
            return False
        return True


class Comparisons:
    """The last comparisons of this server; one at a time is made, the others wait."""

    def __init__(self) -> None:
        self._sides: Newest[Side] = Newest(SIDES_KEPT)
        self._kept: list[Comparing] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def ask(self, question: Question) -> Comparing:
        """The comparison, as it was made for an equal question or as it begins to be made."""
        with self._lock:
            known = next((each for each in self._kept if each.question == question), None)
            asked = known or Comparing(question)
            others = [each for each in self._kept if each is not asked]
            self._kept = [*others[-(COMPARISONS_KEPT - 1) :], asked]
        if known is None:
            # A daemon: the server's end waits for nobody's comparison.
            threading.Thread(target=self._make, args=(asked,), name="compare", daemon=True).start()
        return asked

    def _make(self, asked: Comparing) -> None:
        question = asked.question
        with self._turn:
            try:
                sides = self._side(question.base), self._side(question.new)
                found = compare_sides(*sides, fail_above=question.fail_above, anyway=question.anyway)
            except BaseException as error:
                asked.future.set_exception(error)  # a bug is raised where the answer is drawn
            else:
                asked.future.set_result(found)

    def _side(self, given: Given) -> Side:
        try:
            side = self._sides.of(str(given.folder), given.stamp, lambda: read_side(given.folder))
        except (CompareError, RunError) as error:
            raise CompareError(str(error).replace(str(given.folder), given.label)) from error
        return dataclasses.replace(side, label=given.label)


@st.cache_resource(show_spinner=False)
def comparisons() -> Comparisons:
    """This server's comparisons."""
    return Comparisons()


def given_of(run: Run, name: str | None) -> Given:
    """A run as a side, under its name where it has one."""
    folder = results_dir() / run.run_id
    # All of `run.json` would not do: it changes with every workload that is begun.
    stamp = (file_stamp(folder / MEASUREMENTS_FILE), run.state, run.settings, run.environment)
    return Given(folder=folder, label=name or run.run_id, stamp=stamp)
