"""Comparisons of runs, each made once for the files as they are, in a thread: a big run takes seconds to be read.

Of a run that is being measured the file is another at every look: it is compared anew from time to time.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.newest import FileStamp, Newest, file_stamp
from profiling.charts.names import names_of
from profiling.compare.comparing import Comparison, compare_sides
from profiling.compare.pooling import pool
from profiling.compare.sides import CompareError, Side, read_side
from profiling.runs import MEASUREMENTS_FILE, Run, RunError, results_dir

# Of a side, beside its first: all of them are held while they are looked at.
MOST_FURTHER = 4
# Of which the tables are kept: those that are looked at, two as a rule, and one before.
SIDES_KEPT = 2 * (1 + MOST_FURTHER) + 1
COMPARISONS_KEPT = 3
# What most comparisons take less than: waited for, so that their page is drawn at once.
WAIT_S = 0.4
# Of a run that grows: no sooner after a comparison than so long, or so many times what it took. It takes time from what
# is being measured.
RENEW_S = 3.0
PAUSE_SHARE = 6.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """One side as it is asked for; equal as long as nothing of it has changed.

    Attributes:
        folder: where the run lies, or the report.
        label: what it is called.
        rows: the stamp of its measurements.
        rest: what else is read of it.
        is_running: whether it is being measured.
    """

    folder: Path
    label: str
    rows: FileStamp
    rest: Any
    is_running: bool

    def has_grown_to(self, later: Given) -> bool:
        """Whether a later look differs in nothing but rows that came while it was measured; or not at all."""
        same = dataclasses.replace(later, rows=self.rows) == self
        return same and (self.is_running or later.rows == self.rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be compared, and how: as `profiling.compare.comparing.compare_runs` takes it."""

    base: Given
    new: Given
    fail_above: float
    anyway: bool
    base_also: tuple[Given, ...] = ()
    new_also: tuple[Given, ...] = ()

    @property
    def sides(self) -> tuple[tuple[Given, ...], tuple[Given, ...]]:
        """The runs of BASE and those of NEW."""
        return (self.base, *self.base_also), (self.new, *self.new_also)

    def has_grown_to(self, later: Question) -> bool:
        """Whether a later question is the same but for rows that came while they were measured."""
        if not self.is_like(later):
            return False
        pairs = itertools.chain(*(zip(*sides, strict=True) for sides in zip(self.sides, later.sides, strict=True)))
        return all(given.has_grown_to(now) for given, now in pairs)

    def is_like(self, other: Question) -> bool:
        """Whether the same runs are compared in the same way, whatever has become of them."""
        mine, others = (
            ([[given.folder for given in side] for side in each.sides], each.fail_above, each.anyway)
            for each in (self, other)
        )
        return mine == others


class Comparing:
    """A comparison that is being made, or is there; its future raises what `compare_runs` does."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.future: Future[Comparison] = Future()
        self.began = time.monotonic()
        self.took_s = 0.0
        self.ended: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is so old that rows which came since may be looked at."""
        pause_s = max(RENEW_S, PAUSE_SHARE * self.took_s)
        return self.ended is not None and time.monotonic() - self.ended >= pause_s

    @property
    def is_answered(self) -> bool:
        """Whether it is there, and found something."""
        return self.future.done() and self.future.exception() is None

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
        """The comparison, as it was made for an equal question or as it begins to be made.

        Of a run that is being measured it may be one of fewer rows, where that is not due to be made again.
        """
        with self._lock:
            known = next((each for each in self._kept if each.question == question), None)
            if known is None:
                before = (each for each in reversed(self._kept) if each.question.has_grown_to(question))
                known = next((each for each in before if not each.is_due), None)
            asked = known or Comparing(question)
            others = [each for each in self._kept if each is not asked]
            self._kept = [*others[-(COMPARISONS_KEPT - 1) :], asked]
        if known is None:
            # A daemon: the server's end waits for nobody's comparison.
            threading.Thread(target=self._make, args=(asked,), name="compare", daemon=True).start()
        return asked

    def last_answer(self, question: Question) -> Comparing | None:
        """The last comparison of the same runs that found something, to be shown while a newer one is being made."""
        with self._lock:
            return next(
                (each for each in reversed(self._kept) if each.question.is_like(question) and each.is_answered), None
            )

    def _make(self, asked: Comparing) -> None:
        question = asked.question
        with self._turn:
            began = time.monotonic()
            try:
                base, new = ([self._side(given) for given in side] for side in question.sides)
                sides = pool(base, is_new=False), pool(new, is_new=True)
                found = compare_sides(*sides, fail_above=question.fail_above, anyway=question.anyway, naming=names_of)
            except BaseException as error:
                asked.future.set_exception(error)  # a bug is raised where the answer is drawn
            else:
                asked.future.set_result(found)
            asked.ended = time.monotonic()
            asked.took_s = asked.ended - began

    def _side(self, given: Given) -> Side:
        try:
            side = self._sides.of(str(given.folder), (given.rows, given.rest), lambda: read_side(given.folder))
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
    return Given(
        folder=folder,
        label=name or run.run_id,
        rows=file_stamp(folder / MEASUREMENTS_FILE),
        rest=(run.state, run.settings, run.environment),
        is_running=run.state == "running",
    )


def given_of_file(path: Path, name: str) -> Given:
    """A report as a side, under the name that it was given by."""
    return Given(folder=path, label=name, rows=file_stamp(path), rest=None, is_running=False)
