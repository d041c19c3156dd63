from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dashboard_samples import make_run, without_numbers
from made_up_runs import FakeChild

from profiling.cli import main
from profiling.laws.crossover import SweepProber, probes_of
from profiling.laws.crossover_question import head_counts
from profiling.laws.crossover_search import Step
from profiling.run_list import Listing, list_runs
from profiling.runs import read_run, run_folder
from profiling.settings import SweepSettings
from profiling.workload import Grid, GridError

TINY = {"batch_size": (2,), "num_heads": (2,), "d_model": 6, "device": "cpu", "threads": 1}
QUICK = {"time_budget_s": 0.02, "quiet_wait_s": 0.0}


def planted(folder: Path, changes: dict[tuple[int, str], dict[str, Any]] | None = None) -> Path:
    grid = Grid(batch_size=(3,), seq_len=(64, 160), num_heads=(4,), d_model=56, device="cpu")
    settings = SweepSettings(contenders=("custom", "official-fused"), replicates=3)
    make_run(folder, grid=grid, settings=settings, num_rounds=11, changes=changes)
    return folder


# -- from a run -------------------------------------------------------------------------------------------------------


def test_the_ratio_of_two_contenders_is_that_of_their_rounds_whatever_each_is_compared_with(tmp_path: Path) -> None:
    probes = probes_of(planted(tmp_path / "run"), "seq_len", "custom", "official-fused")
    assert [probe.size for probe in probes] == [64, 160]
    # Planted: the fused official call takes 0.64 of the official one's time, custom 0.74; jitter cancels by the round.
    for probe in probes:
        assert len(probe.ratios) == len(probe.clones) == 3
        assert all(ratio == pytest.approx(0.64 / 0.74, rel=0.05) for ratio in probe.ratios)
    turned = probes_of(tmp_path / "run", "seq_len", "official-fused", "custom")
    assert turned[0].ratios[0] == pytest.approx(1 / probes[0].ratios[0])


def test_a_size_at_which_one_of_them_was_lost_is_lost_with_the_reason(tmp_path: Path) -> None:
    folder = planted(tmp_path / "run", {(2, "official-fused"): without_numbers("oom", "asked for 9 GiB")})
    small, large = probes_of(folder, "seq_len", "custom", "official-fused")
    assert small.lost == ""
    assert (large.sign, large.lost) == ("lost", "official-fused: oom: asked for 9 GiB")


def test_a_layer_that_is_wrong_has_no_speed(tmp_path: Path) -> None:
    folder = planted(tmp_path / "run", {(1, "custom"): {"check_verdict": "fail"}})
    assert probes_of(folder, "seq_len", "custom", "official-fused")[0].lost == (
        "custom: its check says fail, so its speed does not count"
    )


def test_a_run_without_its_samples_has_no_ratio(tmp_path: Path) -> None:
    folder = planted(tmp_path / "run")
    (folder / "samples.csv").unlink()
    assert all("not in the samples" in probe.lost for probe in probes_of(folder, "seq_len", "custom", "official-fused"))


# -- by measuring -----------------------------------------------------------------------------------------------------


def test_a_step_is_measured_for_real_and_kept_as_a_run(tmp_path: Path) -> None:
    measure = SweepProber("custom", "official", "seq_len", tmp_path / "search", {**TINY, **QUICK})
    probes, folder = measure(Step((3, 5), 1))
    assert folder == tmp_path / "search" / "step-1"
    assert read_run(folder).state == "finished"
    assert [probe.size for probe in probes] == [3, 5]
    assert all(len(probe.ratios) == 1 and 0 < probe.ratios[0] < math.inf for probe in probes)
    assert all(len(probe.clones) == 1 for probe in probes)


def test_what_no_layer_has_or_no_machine_holds_is_lost_without_being_tried(
    tmp_path: Path, fake: type[FakeChild]
) -> None:
    heads = SweepProber("custom", "official", "num_heads", tmp_path / "search", {**TINY, **QUICK, "seq_len": (5,)})
    probes, folder = heads(Step((4,), 2))
    assert (probes[0].lost, folder) == ("invalid: d_model 6 is not divisible by num_heads 4", None)
    long = SweepProber("custom", "official", "seq_len", tmp_path / "search", {**TINY, **QUICK})
    probes, _ = long(Step((2_000_000,), 2))
    assert probes[0].lost.startswith("refused by the estimate: ")
    assert fake.asked == []


@pytest.mark.parametrize(
    ("axis", "pair", "options", "words"),
    [
        ("dtype", ("custom", "official"), {}, "axis must be one of seq_len, batch_size, num_heads, not 'dtype'"),
        ("seq_len", ("custom", "custom"), {}, "two different ones"),
        ("seq_len", ("custom", "official"), {"num_heads": (1, 2)}, "num_heads must have one value in a search along"),
        ("seq_len", ("custom", "nobody"), {}, "contenders must be among"),
    ],
)
def test_a_search_that_cannot_be_is_refused(
    axis: str, pair: tuple[str, str], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(GridError, match=words):
        SweepProber(*pair, axis, Path("nowhere"), {**TINY, **options})


# -- the command ------------------------------------------------------------------------------------------------------

COMMAND = [
    *("crossover", "--contenders", "custom,official", "--from", "32", "--to", "128", "--replicates", "2"),
    *("--max-replicates", "2", "--device", "cpu", "--threads", "1", "--d-model", "6", "--num-heads", "2"),
]


@pytest.mark.usefixtures("own_signals", "unsynced")
def test_the_command_tells_its_answer_for_people_and_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: type[FakeChild]
) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    # The child's times are the same for both: a tie everywhere, so nothing is certain.
    done = CliRunner().invoke(main, [*COMMAND, "--json"])
    assert done.exit_code == 1, done.output
    answer = json.loads(done.stdout)
    assert (answer["kind"], answer["axis"], answer["winner"]) == ("untold", "seq_len", None)
    assert [probe["size"] for probe in answer["probes"]] == [32, 64, 96, 128]
    assert {probe["sign"] for probe in answer["probes"]} == {"same"}
    assert answer["runs"] == [f"{answer['folder']}/step-1"]
    assert Path(answer["folder"]).parent == tmp_path
    assert list_runs(tmp_path) == Listing(), "no list of runs shows the steps"
    assert run_folder(answer["runs"][0]) == Path(answer["folder"]) / "step-1"
    assert "at 32 custom the same as official (1.00 [1.00, 1.00], 2 replicates)" in done.stderr
    told = CliRunner().invoke(main, COMMAND)
    assert told.exit_code == 1
    assert told.stdout.startswith("whether custom or official is faster cannot be told: at ")
    assert "measured in: " in told.stdout


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--contenders", "custom"], "contenders must be two names separated by a comma, not 'custom'"),
        (["--axis", "depth"], "axis must be one of seq_len, batch_size, num_heads"),
        (["--from", "x"], "from must be a whole number, not 'x'"),
        (["--from", "0"], "from must be"),
        (["--to", "0"], "to must be"),
        (["--step", "97"], "step must be at most the 96 between from and to, not 97"),
        (["--replicates", "1"], "replicates must be at least 2"),
        (["--seq-len", "1.5", "--axis", "batch_size"], "seq_len must be a whole number"),
        (["--seq-len", "512"], "seq_len is what is searched, from 32 to 128: leave --seq-len out"),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence_and_one_object(changes: list[str], words: str) -> None:
    done = CliRunner().invoke(main, [*COMMAND, *changes, "--json"])
    assert done.exit_code == 2
    assert words in json.loads(done.stdout)["error"]
    assert done.stderr.startswith("error: ")


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize(
    ("width", "high", "words"),
    [
        # A prime: no signal ended the walk up to it.
        (2**31 - 1, 2**31 - 2, "from 1 to 2147483646 must divide d_model 2,147,483,647, and only 1 does"),
        (10**14, 10**12, "must be at most 2,147,483,647"),
        (10**14, 8, "d_model must be at most 2,147,483,647"),
    ],
)
def test_no_width_keeps_a_search_over_head_counts_from_answering(width: int, high: int, words: str) -> None:
    began = time.monotonic()
    options = ["--axis", "num_heads", "--from", "1", "--to", str(high), "--d-model", str(width), "--json"]
    done = CliRunner().invoke(main, ["crossover", "--contenders", "custom,official", *options])
    assert done.exit_code == 2
    assert words in json.loads(done.stdout)["error"]
    assert time.monotonic() - began < 20


def test_head_counts_of_which_none_divides_the_width_are_refused_before_any_is_tried() -> None:
    with pytest.raises(GridError, match="two num_heads from 2 to 6 must divide d_model 7, and none does"):
        head_counts(2, 6, {"d_model": 7})


@pytest.mark.parametrize("width", [6, 36, 98, 512])
def test_head_counts_are_all_that_divide_the_width(width: int) -> None:
    for low, high in ((1, width), (1, 7), (2, 600)):
        expected = tuple(count for count in range(low, high + 1) if width % count == 0)
        assert head_counts(low, high, {"d_model": width}) == expected
