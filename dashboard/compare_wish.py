"""What is to be compared: the runs of either side, as they are called, asked for and followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dashboard.baseline_file import Baseline
from dashboard.compare_store import Question, given_of, given_of_file
from profiling.runs import Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be compared.

    Attributes:
        base: what was before.
        new: what is now.
        base_also: further runs of BASE.
        new_also: further runs of NEW.
        names: of the runs that have one, by id.
        fail_above: the share above which a change counts as a regression.
        baseline: the file that stands in place of `base`; None where none was given.
    """

    base: Run
    new: Run
    base_also: tuple[Run, ...] = ()
    new_also: tuple[Run, ...] = ()
    names: Mapping[str, str]
    fail_above: float
    baseline: Baseline | None = None

    @property
    def words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the runs of BASE and those of NEW are called at the command line."""
        base = self.base.run_id if self.baseline is None else self.baseline.name
        return (base, *_ids(self.base_also)), (self.new.run_id, *_ids(self.new_also))

    @property
    def runs(self) -> tuple[tuple[str, Run], ...]:
        """Each run with what it is called in sentences: its side, and of several also which it is."""
        base = self.base_also if self.baseline is not None else (self.base, *self.base_also)
        of_base, of_new = (len(each) > 1 for each in self.words)
        return (
            *((self._title("BASE", run, is_one_of_several=of_base), run) for run in base),
            *((self._title("NEW", run, is_one_of_several=of_new), run) for run in (self.new, *self.new_also)),
        )

    def later(self, runs: Mapping[str, Run]) -> Wish:
        """The same, of runs as they have become, by id."""
        base, new = (runs.get(run.run_id, run) for run in (self.base, self.new))
        base_also, new_also = (
            tuple(runs.get(run.run_id, run) for run in also) for also in (self.base_also, self.new_also)
        )
        return dataclasses.replace(self, base=base, new=new, base_also=base_also, new_also=new_also)

    def question(self, *, anyway: bool) -> Question:
        """What is to be compared, of the files as they are now."""
        base, new = (
            tuple(given_of(run, self.names.get(run.run_id)) for run in side)
            for side in ((self.base, *self.base_also), (self.new, *self.new_also))
        )
        if self.baseline is not None:
            base = (given_of_file(self.baseline.path, self.baseline.name), *base[1:])
        return Question(
            base=base[0], new=new[0], base_also=base[1:], new_also=new[1:], fail_above=self.fail_above, anyway=anyway
        )

    def _title(self, side: str, run: Run, *, is_one_of_several: bool) -> str:
        return f"{self.names.get(run.run_id) or run.run_id} of {side}" if is_one_of_several else side


def _ids(runs: tuple[Run, ...]) -> tuple[str, ...]:
    return tuple(run.run_id for run in runs)
