"""How often a comparison alarms falsely, and how often it finds a slow-down, where whole runs stray by themselves.

    python tests/benchmarks/compare_alarms.py [--tries 300] [--rows 2 24] [--noise 0.6]

Nothing is measured: runs are drawn. Each replicate of a row strays from its run by `--noise` per cent, and each run
from the truth by an offset that no replicate shows: one that all rows of the run share, or one of each row by itself.
Told is the share of comparisons with an alarm (a row that counts as a regression at a threshold of 5 %) where nothing
changed, for one to three runs a side; then the share in which a slow-down of all rows by 7, 10 and 20 % is found in a
row at least, and in how many of the rows. Exit status 1 where two runs a side raise more false alarms than 5 % at an
offset of 2 %, or where without any offset a slow-down of 20 % is missed.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

from profiling.compare.judging import Change, is_time_regression, joint_noise, time_verdict
from profiling.compare.run_to_run import Runs, run_to_run
from profiling.compare.spreads import change_half_widths, corrected_level

SIDES = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3))
OFFSETS = (0.0, 0.01, 0.02, 0.03)
SLOW_DOWNS = (1.0, 1.07, 1.10, 1.20)
REPLICATES = 5
FAIL_ABOVE = 0.05
MOST_FALSE_ALARMS = 0.05
LEAST_FOUND = 0.8


def compare_once(
    draw: np.random.Generator,
    *,
    runs: tuple[int, int],
    rows: int,
    noise: float,
    offset: float,
    shared: bool,
    slow: float,
) -> tuple[bool, float]:
    """Whether one drawn comparison alarms, and the share of its rows that do."""
    sides, floors = [], []
    for number, log in zip(runs, (0.0, math.log(slow)), strict=True):
        strayed = draw.normal(0, offset, (number, 1 if shared else rows, 1)) if offset else 0.0
        logs = log + strayed + draw.normal(0, noise, (number, rows, REPLICATES))
        errors = logs.std(axis=2, ddof=1) / math.sqrt(REPLICATES)
        sides.append(Runs(means=logs.mean(axis=2), errors=errors, numbers=np.full((number, rows), float(REPLICATES))))
        clones = draw.normal(0, noise, (number, rows, REPLICATES)).mean(axis=2)
        floors.append(np.expm1(np.sqrt((clones**2).mean(axis=0))))
    spread = run_to_run(sides, np.ones(rows, dtype=np.bool_))
    pair = (sides[0], sides[1])
    halves = [change_half_widths(pair, np.full(rows, corrected_level(number)), spread) for number in (1, rows)]
    logs = sides[1].mean - sides[0].mean
    found = 0
    for place in range(rows):
        change = Change(
            measure="relative",
            log=float(logs[place]),
            half=float(halves[0][place]),
            half_all=float(halves[1][place]),
            noise=joint_noise(float(floors[0][place]), float(floors[1][place])),
            numbers=(REPLICATES, REPLICATES),
        )
        found += time_verdict(change)[0] == "slower" and is_time_regression(change, FAIL_ABOVE)
    return found > 0, found / rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="+", default=[2, 24])
    parser.add_argument("--noise", type=float, default=0.6, help="per cent, from replicate to replicate")
    options = parser.parse_args()
    missed = []
    print(f"{options.tries} comparisons each, {REPLICATES} replicates a run, noise {options.noise:g} %, threshold 5 %")
    heads = "".join(f"{'false' if slow == 1 else f'+{slow - 1:.0%}':>14}" for slow in SLOW_DOWNS)
    print(f"{'rows':>4}  {'offset':<15}{'BASE, NEW':<10}{heads}    alarm in any row, of all rows")
    for rows in options.rows:
        for offset in OFFSETS:
            for shared in (True, False) if offset else (True,):
                where = f"{offset:.0%} {'of a run' if shared else 'of each row'}" if offset else "none"
                for runs in SIDES:
                    told = []
                    for slow in SLOW_DOWNS:
                        draw = np.random.default_rng(
                            [20261130, rows, round(1000 * offset), shared, *runs, round(100 * slow)]
                        )
                        tries = [
                            compare_once(
                                draw,
                                runs=runs,
                                rows=rows,
                                noise=options.noise / 100,
                                offset=offset,
                                shared=shared,
                                slow=slow,
                            )
                            for _ in range(options.tries)
                        ]
                        any_row, of_rows = (float(np.mean(each)) for each in zip(*tries, strict=True))
                        told.append(f"{any_row:8.1%} {of_rows:5.0%}")
                        is_wolf = slow == 1 and runs == (2, 2) and offset <= 0.02 and any_row > MOST_FALSE_ALARMS
                        is_deaf = slow == SLOW_DOWNS[-1] and not offset and any_row < LEAST_FOUND
                        if is_wolf or is_deaf:
                            missed.append(f"{rows} rows, offset {where}, runs {runs}, {slow - 1:+.0%}: {any_row:.1%}")
                    print(f"{rows:>4}  {where:<15}{f'{runs[0]}, {runs[1]}':<10}{''.join(told)}", flush=True)
    for each in missed:
        print(f"MISSED: {each}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
