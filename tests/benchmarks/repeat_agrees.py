"""Measures a few points, then each again by its command and by its script, and judges whether they agree.

    python tests/benchmarks/repeat_agrees.py [REPLICATES]

Some ten minutes with 5 replicates on a quiet machine. Each row is judged by `profiling.agreement`; by chance alone
about one judgement in twenty says that they differ. Exit status 1 where more do than chance gives with 99 %, or an
error differs at all; what is too noisy to tell is counted apart.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from profiling import run_sweep
from profiling.agreement import Told, agreement
from profiling.measured_point import MeasuredPoint, find_point
from profiling.repeat import repeat_sweep
from profiling.standalone.writing import script_text

# batch_size, seq_len, num_heads: of a call of tens of microseconds, of one of a millisecond, and of one of tens.
SHAPES = ((1, 16, 2), (1, 128, 8), (4, 256, 8))
LAYER = Path(__file__).resolve().parents[1] / "own_layers.py"


def main() -> None:
    """Prints a line for each row and way, and a verdict."""
    replicates = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    judged: list[bool | None] = []
    errors: list[bool] = []
    with tempfile.TemporaryDirectory() as place:
        mine = Path(place) / "mine.py"
        mine.write_text(_right(), encoding="utf-8")
        for number, (batch_size, seq_len, num_heads) in enumerate(SHAPES):
            folder = Path(place) / f"run{number}"
            run_sweep(
                batch_size=[batch_size],
                seq_len=[seq_len],
                num_heads=[num_heads],
                d_model=64 * num_heads,
                device="cpu",
                contenders=["custom", "custom-fused", f"{mine}:Right"],
                replicates=replicates,
                out=folder,
            )
            for contender in ("custom", "custom-fused", "mine.py:Right"):
                point = find_point(folder, 1, contender)
                print(f"{point.workload.label}: {contender}")
                for way, words, agrees, same in (_by_command(point, Path(place)), _by_script(point, Path(place))):
                    print(f"    {way:8} {words}{'' if same else '; THE ERROR DIFFERS'}", flush=True)
                    judged += [agrees]
                    errors += [same]
    differing, untold = judged.count(False), judged.count(None)
    allowed = _most_by_chance(len(judged) - untold)
    told = len(judged) - untold
    print(f"{differing} of {told} differ, {untold} are too noisy to tell; chance alone gives up to {allowed}")
    print(f"errors equal: {all(errors)}")
    sys.exit(differing > allowed or not all(errors))


def _right() -> str:
    from runpy import run_path

    return str(run_path(str(LAYER))["RIGHT"])


def _by_command(point: MeasuredPoint, place: Path) -> tuple[str, str, bool | None, bool]:
    grid, settings = repeat_sweep(point.workload, point.contender, point.reference, point.run.settings)
    folder = Path(tempfile.mkdtemp(dir=place)) / "run"
    run_sweep(**{**grid.to_dict(), **settings.to_dict()}, out=folder)
    again = find_point(folder, 1, point.contender)
    said, found = Told.of_row(point.row), Told.of_row(again.row)
    assert said is not None
    assert found is not None
    agrees, words = agreement(said, found)
    return "command", words, agrees, again.row["max_abs_error"] == point.row["max_abs_error"]


def _by_script(point: MeasuredPoint, place: Path) -> tuple[str, str, bool | None, bool]:
    script = Path(tempfile.mkdtemp(dir=place)) / "again.py"
    script.write_text(script_text(point), encoding="utf-8")
    count = str(point.run.settings.replicates)
    done = subprocess.run([sys.executable, "-I", script, count], stdout=subprocess.PIPE, text=True, check=True)
    words = next(line for line in done.stdout.splitlines() if line.startswith("the row said"))
    here, there = re.search(r"max error (\S+) \(the row said (\S+)\)", done.stdout).groups()  # type: ignore[union-attr]
    agrees = None if "too noisy" in words else "they agree" in words
    return "script", words, agrees, here == there


def _most_by_chance(count: int) -> int:
    """The fewest of `count` that chance (one in twenty) passes in less than 1 % of the cases."""
    total = 0.0
    for number in range(count + 1):
        total += math.comb(count, number) * 0.05**number * 0.95 ** (count - number)
        if total >= 0.99:
            return number
    return count


if __name__ == "__main__":
    main()
