"""How often the interval of a told law holds the truth, and how often it is told wrong beside a step, in made-up runs.

Also of growth that is none of the fitted shapes: two steps, growth that slackens, a cliff. Run by hand, `python
tests/benchmarks/laws_coverage.py`, some minutes on one core: prints a line for each shape, number
of sizes and noise, and ends with status 1 where an aim is missed. The noise is that of one replicate; all times of a
replicate are slower or faster together by another 5 %. A law of all sizes, or of the last ones, is right where its
interval holds the exponent that a power law through their exact times has; one of the largest size, where it holds the
exponent there. Beside a step, whatever is told is right only where it holds the exponent on either side of it; of two
steps, a law of all sizes is one of the stairs as a whole, and any other of their treads.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from profiling.laws.growth import ALL_SIZES, LARGEST_SIZE, fit_law

_Array = npt.NDArray[np.float64]

# At least so many of the told laws hold the truth, of every shape, number of sizes, noise and number of replicates
# where enough are told for a share; without replicates that is the aim for all shapes of a noise together.
LEAST_HELD, FEW_TOLD = 0.93, 0.10
# The same of each kind that is none of the fitted shapes, of all its cells together, with replicates or without.
LEAST_HELD_OUTSIDE = 0.90
# At most so many runs are told wrong beside a step; and clean power laws of 5 sizes, with 3 % of noise, are told.
MOST_WRONG, LEAST_TOLD, USEFUL = 0.02, 0.90, 0.10
STEP, TWO_STEPS, SLACKENS, CLIFF = "step", "two steps", "S^2/(1 + S/", "cliff"
OUTSIDE = (TWO_STEPS, SLACKENS, CLIFF)
NUM_SIZES, NOISES, REPLICATES = (4, 5, 8, 10, 12), (0.01, 0.03, 0.06, 0.10), (1, 3, 5, 10)
COMMON = 0.05
END_EXPONENT_OF_STEPS = 1.8


@dataclasses.dataclass(frozen=True)
class Kind:
    """A shape of times: at sizes; and its exponent at the largest of them."""

    name: str
    times: Callable[[_Array], _Array]
    end: Callable[[_Array], float]


@dataclasses.dataclass
class Score:
    """What became of the runs of one cell."""

    num_runs: int
    told: int = 0
    held: int = 0
    width: float = 0.0

    @property
    def share_told(self) -> float:
        return self.told / self.num_runs

    @property
    def share_held(self) -> float:
        return self.held / self.told if self.told else 1.0

    @property
    def mean_width(self) -> float:
        return self.width / self.told if self.told else 0.0

    @property
    def share_wrong(self) -> float:
        return (self.told - self.held) / self.num_runs


def kinds() -> list[Kind]:
    """Power laws, overheads beside one, a layer's operations, steps, and what is none of the fitted shapes."""
    found = [_power(k) for k in (0.5, 1.0, 1.5, 2.0)]
    found += [_overhead(k) for k in (1.0, 1.5, 2.0)]
    found += [_operations(width) for width in (64, 512)]
    found += [_step(factor) for factor in (1.3, 1.15, 0.8)]
    found += [_two_steps(factor) for factor in (1.2, 1.1)]
    found += [_slackening(centre) for centre in (300, 1000, 3000)]
    return found + [_cliff(*each) for each in ((1.5, 400, 0.2), (1.5, 1500, 0.4), (2.0, 600, 0.5))]


def _power(k: float) -> Kind:
    return Kind(f"S^{k:g}", lambda s: s**k, lambda _: k)


def _overhead(k: float) -> Kind:
    return Kind(
        f"1 + (S/300)^{k:g}",
        lambda s: 1 + (s / 300) ** k,
        lambda s: k * float((s[-1] / 300) ** k / (1 + (s[-1] / 300) ** k)),
    )


def _operations(width: int) -> Kind:
    return Kind(
        f"operations, d {width}",
        lambda s: 8 * s * width**2 + 4 * s**2 * width,
        lambda s: float((8 * width + 8 * s[-1]) / (8 * width + 4 * s[-1])),
    )


def _step(factor: float) -> Kind:
    """S^1.8, and another kernel for the larger half of the sizes."""
    return Kind(
        f"{STEP} {factor - 1:+.0%}",
        lambda s: s**END_EXPONENT_OF_STEPS * np.where(np.arange(len(s)) >= (len(s) + 1) // 2, factor, 1.0),
        lambda _: END_EXPONENT_OF_STEPS,
    )


def _two_steps(factor: float) -> Kind:
    """S^1.8, and other kernels for the second and the last third of the sizes."""

    def times(s: _Array) -> _Array:
        position, count = np.arange(len(s)), len(s)
        climbed = (position >= (count + 1) // 3).astype(float) + (position >= (2 * count + 1) // 3)
        return s**END_EXPONENT_OF_STEPS * factor**climbed

    return Kind(f"{TWO_STEPS} {factor - 1:+.0%}", times, lambda _: END_EXPONENT_OF_STEPS)


def _slackening(centre: float) -> Kind:
    """S^2 for small sizes and S for large ones."""
    return Kind(
        f"{SLACKENS}{centre:g})",
        lambda s: s**2 / (1 + s / centre),
        lambda s: 2 - float(s[-1] / (centre + s[-1])),
    )


def _cliff(factor: float, centre: float, width: float) -> Kind:
    """S^1.8, slower by a factor that sets in around a size, as where a cache overflows."""

    def beyond(s: _Array) -> _Array:
        return 1 / (1 + np.exp(-np.log(s / centre) / width))

    def end(s: _Array) -> float:
        share = float(beyond(s)[-1])
        return END_EXPONENT_OF_STEPS + float(np.log(factor)) * share * (1 - share) / width

    name = f"{CLIFF} x{factor:g} {centre:g} ±{width:g}"
    return Kind(name, lambda s: s**END_EXPONENT_OF_STEPS * factor ** beyond(s), end)


def sizes_of(count: int) -> _Array:
    """So many sizes from 64 on, by doubling; many of them by smaller steps, up to 4,096."""
    if count < 8:
        return 64.0 * 2 ** np.arange(count)
    return np.round(64 * 2 ** (np.arange(count) * 6 / (count - 1)))


def score(kind: Kind, count: int, noise: float, replicates: int, num_runs: int, random: np.random.Generator) -> Score:
    """Plants runs of one shape, and sees what is told of them."""
    sizes, found = sizes_of(count), Score(num_runs)
    exact = kind.times(sizes)
    for _ in range(num_runs):
        slower = np.exp(COMMON * random.standard_normal(replicates))
        times = exact[:, None] * slower * np.exp(noise * random.standard_normal((count, replicates)))
        rows = [dict(enumerate(of_size)) for of_size in times.tolist()] if replicates > 1 else []
        law = fit_law([int(size) for size in sizes], np.median(times, axis=1).tolist(), replicates=rows)
        if "exponent" in law:
            told = law["exponent"]
            found.told += 1
            found.width += told.half_width
            found.held += (
                told.low - 1e-9 <= _truth(kind, sizes, exact, law["basis"], law["num_fitted"]) <= told.high + 1e-9
            )
    return found


def _truth(kind: Kind, sizes: _Array, exact: _Array, basis: str, num_fitted: int) -> float:
    is_tread = kind.name.startswith(TWO_STEPS) and basis != ALL_SIZES
    if basis == LARGEST_SIZE or is_tread or kind.name.startswith(STEP):
        return kind.end(sizes)
    assert basis == ALL_SIZES or num_fitted < len(sizes)
    return float(np.polyfit(np.log(sizes[-num_fitted:]), np.log(exact[-num_fitted:]), 1)[0])


def misses(kind: Kind, count: int, noise: float, replicates: int, found: Score) -> list[str]:
    """The aims that a cell misses by more than the luck of so many runs."""
    if kind.name.startswith(STEP):
        is_wrong = found.share_wrong > MOST_WRONG + _luck(MOST_WRONG, found.num_runs)
        return [f"{found.share_wrong:.0%} told wrong"] if is_wrong else []
    if replicates == 1 or kind.name.startswith(OUTSIDE):
        return []
    missed = []
    if found.share_told >= FEW_TOLD and found.share_held < LEAST_HELD - _luck(LEAST_HELD, found.told):
        missed.append(f"{found.share_held:.0%} of the told hold")
    if kind.name.startswith("S^") and noise <= 0.03 and count >= 5:
        missed += [f"{found.share_told:.0%} told"] if found.share_told < LEAST_TOLD else []
        missed += [f"±{found.mean_width:.2f} wide"] if found.mean_width > USEFUL else []
    return missed


def _luck(share: float, number: int) -> float:
    """Three deviations of a share that is seen in so many."""
    return 3 * float(share * (1 - share) / max(1, number)) ** 0.5


def main(arguments: Sequence[str]) -> int:
    """Prints the table; the first argument is the number of runs of each cell, 100 unless told otherwise."""
    num_runs = int(arguments[0]) if arguments else 100
    random = np.random.default_rng(20)
    print(f"told %, held % of them (beside a step: wrong % of all), half width; {REPLICATES} replicates")
    missed: list[str] = []
    totals: dict[tuple[float, str], list[Score]] = {}
    outside: dict[str, list[Score]] = {}
    for kind in kinds():
        for count in NUM_SIZES:
            for noise in NOISES:
                cells = [score(kind, count, noise, each, num_runs, random) for each in REPLICATES]
                told = "   ".join(_cell(kind, each) for each in cells)
                print(f"{kind.name:20} {count:2} sizes {noise:4.0%}  {told}", flush=True)
                for replicates, found in zip(REPLICATES, cells, strict=True):
                    place = f"{kind.name}, {count} sizes, {noise:.0%}, replicates {replicates}"
                    missed += [f"{place}: {what}" for what in misses(kind, count, noise, replicates, found)]
                    which = "without" if replicates == 1 else "with"
                    if kind.name.startswith(OUTSIDE):
                        outside.setdefault(f"{kind.name}, {which} replicates", []).append(found)
                        continue
                    group = "beside steps" if kind.name.startswith(STEP) else which
                    totals.setdefault((noise, group), []).append(found)
    missed += _told_of_all(totals) + _told_outside(outside)
    print("\n".join(["", *(f"MISSED {each}" for each in missed)] if missed else ["", "every aim is met"]))
    return 1 if missed else 0


def _told_of_all(totals: dict[tuple[float, str], list[Score]]) -> list[str]:
    """Prints what became of all runs of a noise, and returns where too few hold."""
    missed = []
    for (noise, group), cells in sorted(totals.items(), key=lambda each: (each[0][1], each[0][0])):
        runs, told, held = (sum(getattr(each, name) for each in cells) for name in ("num_runs", "told", "held"))
        if group == "beside steps":
            print(f"{group}, {noise:.0%} of noise: {told / runs:.0%} told, {(told - held) / runs:.1%} told wrong")
            continue
        print(f"{group} replicates, {noise:.0%} of noise: {told / runs:.0%} told, {held / told:.1%} of them hold")
        if held / told < LEAST_HELD:
            missed.append(f"{group} replicates, {noise:.0%} of noise: {held / told:.1%} of the told hold")
    return missed


def _told_outside(outside: dict[str, list[Score]]) -> list[str]:
    """Prints what became of all runs of a kind that is none of the shapes, and returns where too few hold."""
    missed = []
    for place, cells in outside.items():
        runs, told, held = (sum(getattr(each, name) for each in cells) for name in ("num_runs", "told", "held"))
        words = f"{place}: {told / runs:.0%} told, {held / max(1, told):.1%} of them hold"
        print(words)
        if held < (LEAST_HELD_OUTSIDE - _luck(LEAST_HELD_OUTSIDE, told)) * told:
            missed.append(words)
    return missed


def _cell(kind: Kind, found: Score) -> str:
    share = found.share_wrong if kind.name.startswith(STEP) else found.share_held
    return f"{found.share_told:4.0%} {share:4.0%} ±{found.mean_width:.2f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
