from __future__ import annotations

from pathlib import Path

from made_up_runs import lost_row, make_row, make_run, write_run

from profiling.closing import MAX_ROWS, closing_lines
from profiling.events import Ended
from profiling.progress import describe


def test_a_summary_tells_speedups_with_intervals_and_what_may_be_claimed(tmp_path: Path) -> None:
    rows = [
        make_row(replicate=replicate, point=point, speedup=speedup, noise_floor=noise)
        for point, noise in ((1, 0.01), (2, 0.12))
        for replicate, speedup in ((1, 1.4), (2, 1.6))
    ]
    rows[0]["warnings"] = "the machine was busy; and so on"
    folder = write_run(tmp_path / "run", [*rows, make_row("official")])
    assert closing_lines(folder) == [
        "speed-up over the reference:",
        "    b 3 s 5 h 2 d 10  custom  1.50× (0.64× to 3.50×)  provisional",
        "    b 3 s 7 h 2 d 10  custom  1.50× (0.64× to 3.50×)  provisional, noise floor 12%",
        "provisional: nothing can be claimed below 5 replicates (--replicates 5)",
        "1 row with a warning: the machine was busy",
    ]


def test_one_replicate_has_no_interval_and_a_lost_row_its_status(tmp_path: Path) -> None:
    rows = [make_row(), make_row("official"), lost_row("custom", "error", "ValueError: x", point=2)]
    lines = closing_lines(write_run(tmp_path / "run", [*rows, make_row("official", point=2)]))
    assert [line.split()[8:] for line in lines[1:3]] == [["custom", "1.50×", "provisional"], ["custom", "error"]]


def test_many_points_end_with_where_the_rest_lies(tmp_path: Path) -> None:
    rows = [make_row(point=point) for point in range(1, 41)]
    lines = closing_lines(write_run(tmp_path / "run", rows))
    assert len(lines) <= 20
    assert f"    ... and {40 - MAX_ROWS} more: report.csv" in lines


def test_what_compared_nothing_has_no_summary(tmp_path: Path) -> None:
    assert closing_lines(tmp_path / "none") == []
    invalid = lost_row("custom", "invalid", "d_model 10 is not divisible by num_heads 3")
    assert closing_lines(write_run(tmp_path / "run", [invalid, make_row("official")])) == []


def test_a_finished_sweep_ends_with_it_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [make_row(), make_row("official")])
    told = describe(Ended(make_run(), folder, folder / "report.csv"))
    assert told[0] == "speed-up over the reference:"
    assert told[-2:] == ["finished: 4 of 4 points measured", f"table: {folder / 'report.csv'}"]
    assert describe(Ended(make_run(state="stopped"), folder, folder))[0].startswith("stopped: ")
