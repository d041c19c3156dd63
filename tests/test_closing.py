from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_runs import lost_row, make_row, make_run, write_run

from profiling.closing import MAX_ROWS, WHERE_TO_REPEAT, closing_lines, summary
from profiling.events import Ended
from profiling.progress import describe
from profiling.wording import rounded_percent


def test_a_summary_tells_speedups_with_intervals_and_what_may_be_claimed(tmp_path: Path) -> None:
    rows = [
        make_row(replicate=replicate, point=point, speedup=speedup, clone_speedup=1 + noise)
        for point, noise in ((1, 0.01), (2, 0.12))
        for replicate, speedup in ((1, 1.4), (2, 1.6))
    ]
    rows[0]["warnings"] = "the machine was busy; and so on"
    folder = write_run(tmp_path / "run", [*rows, make_row("official")])
    assert closing_lines(folder) == [
        "speed-up over the reference:",
        "    b 3 s 5 h 2 d 10  custom  1.50× (0.64× to 3.50×)  provisional",
        "    b 3 s 7 h 2 d 10  custom  1.50× (0.64× to 3.50×)  provisional, noise 12 %",
        "provisional: nothing can be claimed below 5 replicates; add replicates:",
        f"    python -m profiling sweep --out {folder} --resume --replicates 5",
        "1 row with a warning: the machine was busy (replicate 1)",
        WHERE_TO_REPEAT,
    ]


def row_of(verdict: str, reason: str = "", **changes: Any) -> dict[str, Any]:
    """A row of a joined table."""
    joined = {"speedup_low": 0.97, "speedup_high": 1.23, "speed_verdict": verdict, "speed_verdict_reason": reason}
    return make_row(**{"warnings": None, "num_speedups": 5, **joined, **changes})


def after_rows(rows: list[dict[str, Any]], replicates: int = 5) -> list[str]:
    """What the summary says below the rows and above its last line."""
    told = summary(rows, Path("made up/run"), replicates)
    assert told[-1] == WHERE_TO_REPEAT
    return told[1 + len(rows) : -1]


def test_the_commonest_reason_for_being_unsure_is_told_once_whatever_its_numbers() -> None:
    reasons = [
        "the clone strays by 7.5 %",
        "the interval 0.970 to 1.230 is wide",
        "the interval 0.871 to 1.350 is wide",
    ]
    rows = [row_of("unsure", reason) for reason in reasons]
    assert after_rows([*rows, row_of("faster", "it is")]) == [
        "unsure in 3 rows, 2 of them alike, the first: the interval 0.970 to 1.230 is wide"
    ]
    assert after_rows(rows[1:]) == ["unsure in 2 rows, all alike, the first: the interval 0.970 to 1.230 is wide"]
    assert after_rows(rows[:1]) == ["unsure: the clone strays by 7.5 %"]
    assert after_rows([row_of("faster", "it is"), row_of("same", "it is")]) == []


@pytest.mark.parametrize(
    ("asked", "measured", "told"),
    [
        (1, [1], 5),
        (3, [3, 3], 5),
        (5, [4, 5], 6),  # one was lost: to ask for 5 again would measure nothing
        (5, [5], 6),  # all measured, but in one of them without the reference
        (7, [2, 3], 10),
    ],
)
def test_the_replicates_to_add_are_those_that_a_verdict_lacks(asked: int, measured: list[int], told: int) -> None:
    rows = [row_of("provisional", num_speedups=count) for count in measured]
    assert after_rows(rows, asked) == [
        "provisional: nothing can be claimed below 5 replicates; add replicates:",
        f"    python -m profiling sweep --out 'made up/run' --resume --replicates {told}",
    ]


@pytest.mark.parametrize(("low", "high", "told"), [(0.5, 49.0, True), (0.5, 50.0, False), (1e-9, 4e9, False)])
def test_an_interval_from_nothing_to_anything_is_told_in_words(low: float, high: float, told: bool) -> None:
    line = summary([row_of("provisional", speedup_low=low, speedup_high=high)], Path("run"), 2)[1]
    assert ("× to " in line) is told
    assert ("its interval is too wide to tell" in line) is not told


@pytest.mark.parametrize(("noise", "told"), [(None, False), (0.0, False), (0.02, False), (0.021, True), (0.3, True)])
def test_a_noise_floor_is_told_where_it_decides_what_may_be_claimed(noise: float | None, told: bool) -> None:
    line = summary([row_of("faster", noise_floor=noise)], Path("run"), 5)[1]
    assert ("noise" in line) is told
    assert not told or line.endswith(f", noise {rounded_percent(noise)}")


def test_names_give_way_and_sentences_wrap_so_that_lines_stay_within_a_hundred_columns() -> None:
    wide = {"batch_size": 128, "seq_len": 16384, "d_model": 1024, "mode": "training"}
    reason = "the interval 0.970 to 1.050 is not clear of 1 ± 4.5 %, by which a clone of the reference strayed: " * 3
    own = "some/where/deep/in/folders/a_rather_long_file_name.py:SomeAttention"
    rows = [row_of("unsure", reason, clone_speedup=1.123, warnings="busy " * 40, **wide) | {"contender": own}]
    lines = summary([*rows, row_of("provisional")], Path("x" * 120), 5)
    assert len(lines) > 8
    assert [line for line in lines if len(line) > 100 and "python -m profiling" not in line] == []
    assert any("a_ra" in line and "…" in line for line in lines)


def test_one_replicate_has_no_interval_and_a_lost_row_its_status(tmp_path: Path) -> None:
    rows = [make_row(), make_row("official"), lost_row("custom", "error", "ValueError: x", point=2)]
    lines = closing_lines(write_run(tmp_path / "run", [*rows, make_row("official", point=2)]))
    assert [line.split()[8:] for line in lines[1:3]] == [["custom", "1.50×", "provisional"], ["custom", "error"]]


def test_many_points_end_with_where_the_rest_lies(tmp_path: Path) -> None:
    rows = [make_row(point=point) for point in range(1, 41)]
    lines = closing_lines(write_run(tmp_path / "run", rows))
    assert len(lines) <= 21
    assert f"    ... and {40 - MAX_ROWS} more: report.csv" in lines


def test_what_compared_nothing_has_no_summary(tmp_path: Path) -> None:
    assert closing_lines(tmp_path / "none") == []
    invalid = lost_row("custom", "invalid", "d_model 10 is not divisible by num_heads 3")
    assert closing_lines(write_run(tmp_path / "run", [invalid, make_row("official")])) == []


def test_a_finished_sweep_ends_with_it_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [make_row(), make_row("official")])
    told = describe(Ended(make_run(), folder, folder / "report.csv"))
    assert told[0] == "speed-up over the reference:"
    assert told[-2:] == ["finished: 4 of 4 points measured, 2 replicates together", f"table: {folder / 'report.csv'}"]
    assert describe(Ended(make_run(state="stopped"), folder, folder))[0].startswith("stopped: ")


def test_a_layer_that_fails_the_check_has_no_verdict_but_the_reason(tmp_path: Path) -> None:
    rows = [make_row(replicate=replicate, check_verdict="fail") for replicate in range(1, 6)]
    lines = closing_lines(write_run(tmp_path / "run", rows))
    assert lines[1] == "    b 3 s 5 h 2 d 10  custom  1.50× (1.50× to 1.50×)  does not count: its check says fail"
