"""Big histories as years of use would leave them: runs of 100,000 rows, and hundreds of runs, made up in seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from dashboard_samples import make_run

from profiling.runs import Run
from profiling.settings import CONTENDERS, SweepSettings
from profiling.workload import Grid

# Six layers of one's own beside the four that are measured unless told otherwise.
OWN = tuple(f"layers/variant_{letter}.py:Variant{letter.upper()}" for letter in "abcdef")


def grid_of(num_points: int, *, lengths: int = 50) -> Grid:
    """A grid of so many points over sequence lengths, batch sizes and heads; all of them can be measured.

    Args:
        num_points: a multiple of `lengths`.
        lengths: how many sequence lengths it sweeps.
    """
    others = num_points // lengths
    heads = max(number for number in (1, 2, 5, 10) if others % number == 0 and (number == 1 or number < others))
    return Grid(
        seq_len=tuple(16 * step for step in range(1, lengths + 1)),
        batch_size=tuple(range(1, others // heads + 1)),
        num_heads=tuple(2**step for step in range(heads)),
        d_model=1024,
        device="cpu",
    )


def wide_run(folder: Path, num_points: int = 25_000, *, lengths: int = 250, **fields: object) -> Run:
    """Many points, four contenders, one replicate: 100,000 rows unless told otherwise."""
    return make_run(folder, grid=grid_of(num_points, lengths=lengths), **fields)


def deep_run(folder: Path, num_points: int = 2_000, *, replicates: int = 5, **fields: object) -> Run:
    """Fewer points, ten contenders, replicates: 100,000 rows as measured unless told otherwise."""
    layers = {name: f"/somewhere/{name}" for name in OWN}
    settings = SweepSettings(contenders=CONTENDERS + OWN, layers=layers, replicates=replicates)
    return make_run(folder, grid=grid_of(num_points), settings=settings, **fields)


def many_runs(results: Path, num_runs: int = 500, num_points: int = 50) -> None:
    """So many runs of 200 rows each, unless told otherwise, one begun every hour; the newest is not the example."""
    last = datetime(2026, 4, 1, tzinfo=UTC)  # later than the example
    for number in range(num_runs):
        began = last - timedelta(hours=num_runs - number)
        make_run(
            results / f"{began:%Y%m%d-%H%M%S}-{number:04x}",
            grid=grid_of(num_points, lengths=5),
            started_at=began.isoformat(timespec="seconds"),
        )
