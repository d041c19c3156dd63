"""The self-test's arithmetic and its flow, on made-up launches; `test_planted_times` holds what is timed for real."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up_runs import make_row, make_run

from profiling.child_process import ChildStopped
from profiling.cli import main
from profiling.run_writer import RunWriter
from profiling.self_test.findings import Finding, finding_of_cost, finding_of_coverage, findings_of_trials
from profiling.self_test.harness import timed_seconds
from profiling.self_test.record import table_lines, verdict_line
from profiling.self_test.run import run_self_test
from profiling.self_test.settings import PLANTED, SelfTestSettings
from profiling.self_test.synthetic import MACHINES, NUM_DRAWS, Machine, coverage
from profiling.self_test.trials import CONTROL, ONE_AFTER_OTHER, PAIRED, Launcher, Trial
from profiling.stopping import StopSwitch
from profiling.workload import GridError

WORKLOADS = ("small", "large")


def paired(contender: str, speedups: list[float], set_number: int = 1, workload: str = "small") -> list[Trial]:
    return [
        Trial(
            method=PAIRED,
            set_number=set_number,
            replicate=replicate,
            workload=workload,
            contender=contender,
            speedup=speedup,
        )
        for replicate, speedup in enumerate(speedups, start=1)
    ]


def theirs(contender: str, speedup: float, set_number: int = 1, workload: str = "small") -> Trial:
    return Trial(
        method=ONE_AFTER_OTHER,
        set_number=set_number,
        replicate=1,
        workload=workload,
        contender=contender,
        speedup=speedup,
    )


def made_up_trials(
    num_sets: int, *, noise: float = 0.004, their_noise: float = 0.1, bias: float = 1.0, seed: int = 3
) -> list[Trial]:
    """Trials of a machine on which the truth is told but for `noise`; a copy seems `bias` times as fast."""
    rng = random.Random(seed)

    def draw(truth: float, spread: float) -> float:
        return truth * math.exp(rng.gauss(0, spread))

    trials: list[Trial] = []
    for number in range(1, num_sets + 1):
        for workload in WORKLOADS:
            for name, slowdown in PLANTED.items():
                truth = bias if slowdown == 1 else 1 / slowdown
                trials += paired(name, [draw(truth, noise) for _ in range(5)], number, workload)
            trials += paired(CONTROL, [draw(1.0, noise) for _ in range(5)], number, workload)
            trials += paired("custom", [draw(1.2, noise) for _ in range(5)], number, workload)
            trials.append(theirs("custom", draw(1.2, their_noise), number, workload))
            trials.append(theirs(CONTROL, draw(1.0, their_noise), number, workload))
    return trials


def found(findings: list[Finding], what: str, workload: str = "") -> Finding:
    (finding,) = [each for each in findings if each.what.startswith(what) and each.workload == workload]
    return finding


def test_a_machine_that_tells_the_truth_is_told_so() -> None:
    findings = findings_of_trials(made_up_trials(8))
    claims = found(findings, "a difference is claimed")
    # 3 copies x 8 sets x 2 workloads.
    assert (claims.value, claims.is_met, claims.refutes) == (0.0, True, False)
    assert claims.count.startswith("0 of 48 verdicts (")
    assert (claims.low, claims.high) == (0.0, pytest.approx(0.0741, abs=5e-4))  # Wilson, by hand
    assert found(findings, "slower by 10%: found").value == 1.0
    assert found(findings, "slower by 10%: told as").value == pytest.approx(1.10, abs=0.003)
    assert found(findings, "the interval holds the truth").value == pytest.approx(0.95, abs=0.06)
    for workload in WORKLOADS:
        assert found(findings, "ours / theirs", workload).is_met is True


def test_a_machine_that_lies_is_refuted() -> None:
    findings = findings_of_trials(made_up_trials(8, bias=1.06))
    claims = found(findings, "a difference is claimed")
    assert claims.value == 1.0
    assert claims.is_met is False
    assert claims.refutes


def test_one_wrong_claim_of_few_misses_the_aim_but_refutes_nothing() -> None:
    trials = made_up_trials(2)
    lying = [trial for trial in trials if (trial.set_number, trial.workload, trial.contender) != (1, "small", "same 1")]
    findings = findings_of_trials([*lying, *paired("same 1", [1.1, 1.1, 1.1, 1.1, 1.1])])
    claims = found(findings, "a difference is claimed")
    assert claims.count.startswith("1 of 12 verdicts")
    assert (claims.is_met, claims.refutes) == (None, False), "twelve verdicts decide nothing"


def test_a_slow_down_too_small_for_the_noise_is_not_found_and_not_invented() -> None:
    findings = findings_of_trials(made_up_trials(6, noise=0.05))
    assert found(findings, "slower by 3%: found").value == pytest.approx(0.0, abs=0.1)


def test_a_slow_down_told_the_wrong_way_round_is_counted_as_that() -> None:
    trials = [trial for trial in made_up_trials(1) if trial.contender != "slower by 5%"]
    trials += paired("slower by 5%", [1.2, 1.21, 1.2, 1.19, 1.2]) + paired(
        "slower by 5%", [0.8, 0.81, 0.8, 0.79, 0.8], workload="large"
    )
    finding = found(findings_of_trials(trials), "slower by 5%: found")
    assert (finding.value, finding.count) == (0.5, "1 of 2 verdicts, 1 the wrong way round")


def test_the_size_of_a_slow_down_is_told_with_its_error_by_hand() -> None:
    trials = [trial for trial in made_up_trials(1) if trial.contender != "slower by 10%"]
    trials += paired("slower by 10%", [1 / 1.1] * 5) + paired("slower by 10%", [1 / 1.21] * 5, workload="large")
    finding = found(findings_of_trials(trials), "slower by 10%: told as")
    # 1.10 and 1.21 against 1.10: off by 0 and 10 %, root mean square 10 % / √2.
    assert finding.value == pytest.approx(1.155)
    assert (finding.low, finding.high) == (pytest.approx(1.1), pytest.approx(1.21))
    assert finding.count == "truth 1.10×, off by 7.1% (RMS)"


def test_a_ratio_more_than_two_percent_off_is_counted_either_way() -> None:
    trials = [trial for trial in made_up_trials(1) if trial.contender != CONTROL]
    trials += paired(CONTROL, [1.03] * 5) + paired(CONTROL, [1.01] * 5, workload="large")
    trials += [theirs(CONTROL, 0.97), theirs(CONTROL, 1.1, workload="large")]
    findings = findings_of_trials(trials)
    assert found(findings, "more than 2% off: joined").count == "1 of 2 ratios"
    assert found(findings, "more than 2% off: torch").count == "2 of 2 ratios"


def test_the_spread_is_the_deviation_of_the_logarithm_over_launches_of_equal_time() -> None:
    trials = [trial for trial in made_up_trials(2) if trial.contender != "custom"]
    for workload in WORKLOADS:
        trials += paired("custom", [1.0] * 5, 1, workload) + paired("custom", [math.exp(0.02)] * 5, 2, workload)
        trials += [theirs("custom", 1.0, 1, workload), theirs("custom", math.exp(0.1), 2, workload)]
    findings = findings_of_trials(trials)
    assert found(findings, "ours, joined", "small").value == pytest.approx(0.02 / math.sqrt(2))
    assert found(findings, "torch.utils.benchmark", "small").value == pytest.approx(0.1 / math.sqrt(2))
    ratio = found(findings, "ours / theirs", "large")
    assert (ratio.value, ratio.is_met) == (pytest.approx(0.2), True)


def test_one_launch_has_no_spread() -> None:
    findings = findings_of_trials(made_up_trials(1))
    assert found(findings, "ours, joined", "small").value is None
    ratio = found(findings, "ours / theirs", "small")
    assert (ratio.value, ratio.is_met) == (None, None)


@pytest.mark.parametrize(("wall_s", "is_met"), [(14.9, True), (15.1, False)])
def test_the_harness_may_cost_half_of_what_it_times(wall_s: float, is_met: bool) -> None:
    finding = finding_of_cost(wall_s, 10.0)
    assert (finding.value, finding.is_met) == (pytest.approx(wall_s / 10), is_met)


def test_timed_seconds_are_those_of_every_sample_with_its_calls_clones_too(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", make_run())
    place = {"run_id": "made-up", "replicate": 1, "point": 1}
    writer.append_measurements([make_row("custom", calls_per_sample=3), make_row("official", calls_per_sample=7)])
    times = [("custom", 2.0), ("custom", 4.0), ("official", 5.0), ("clone:official", 11.0)]
    writer.append_samples(place | {"contender": name, "round": 1, "latency_ms": ms} for name, ms in times)
    # (2 + 4) x 3 + (5 + 11) x 7 milliseconds.
    assert timed_seconds(tmp_path / "run") == pytest.approx(0.130)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_interval_covers_the_truth_on_every_made_up_machine(machine: Machine) -> None:
    hits, draws = coverage(machine, 5, 2, random.Random(29))
    finding = finding_of_coverage(machine, 5, 2, hits, draws)
    assert draws == NUM_DRAWS
    assert finding.is_met, finding
    assert not finding.refutes


def test_an_interval_that_covers_too_seldom_is_refuted() -> None:
    finding = finding_of_coverage(MACHINES[0], 5, 1, 360, 400)
    assert (finding.value, finding.is_met, finding.refutes) == (0.9, False, True)


def test_the_table_has_a_line_for_each_finding_under_its_question() -> None:
    findings = [*findings_of_trials(made_up_trials(2)), finding_of_cost(12.0, 10.0)]
    lines = table_lines(findings)
    assert [line[0] for line in lines if line[0] != " "] == ["a", "b", "c", "d"]
    assert sum("; aim " in line for line in lines) == sum(bool(finding.aim) for finding in findings)
    assert max(len(line) for line in lines) <= 120
    assert any("1.20×" in line and line.endswith("aim <= 1.5: met") for line in lines)


def test_a_value_that_could_not_be_measured_is_a_dash_and_its_aim_unknown() -> None:
    lines = table_lines(findings_of_trials(made_up_trials(1)))
    (line,) = [line for line in lines if "ours / theirs" in line][:1]
    assert " – " in line
    assert line.endswith("aim <= 0.33: open")


def test_what_it_comes_to_is_one_sentence() -> None:
    assert verdict_line(findings_of_trials(made_up_trials(8))) == "nothing is refuted, every aim is met"
    assert verdict_line(findings_of_trials(made_up_trials(8, bias=1.06))).startswith("REFUTED by more than chance: a ")
    assert "open: make more --sets" in verdict_line(findings_of_trials(made_up_trials(1)))


# -- the flow ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def fake_launches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """A self-test without processes: every set is made up. The list holds the numbers of the sets that were made."""
    made: list[int] = []

    def one_set(self: Launcher, set_number: int, workloads: list[Any]) -> Iterator[Trial]:
        made.append(set_number)
        yield from made_up_trials(1, seed=set_number)

    about = {"device": "cpu", "device_name": "Made-up Processor", "torch_version": "2.13.0", "torch_threads": 2}
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Launcher, "one_set", one_set)
    monkeypatch.setattr("profiling.self_test.run.harness_cost", lambda *_: (12.0, 10.0))
    monkeypatch.setattr("profiling.self_test.run._device", lambda *_: about)
    monkeypatch.setattr("profiling.self_test.run.host_environment", lambda: {"python_version": "3.11.7"})
    monkeypatch.setattr("profiling.self_test.run.all_coverages", lambda _: [(MACHINES[0], 5, 1, 380, 400)])
    return made


def test_what_is_printed_is_written_with_the_ratios_behind_it(fake_launches: list[int], tmp_path: Path) -> None:
    ended = run_self_test(SelfTestSettings(max_sets=2), tmp_path / "out")
    table = list(csv.DictReader((tmp_path / "out" / "self-test.csv").open(encoding="utf-8")))
    assert [row["what"] for row in table] == [finding.what for finding in ended.findings]
    assert [row["part"] for row in table] == sorted(row["part"] for row in table)
    ratios = list(csv.DictReader((tmp_path / "out" / "ratios.csv").open(encoding="utf-8")))
    assert len(ratios) == len(ended.trials)
    about = json.loads((tmp_path / "out" / "about.json").read_text(encoding="utf-8"))
    assert about["environment"]["device_name"] == "Made-up Processor"
    assert about["settings"]["max_sets"] == 2
    assert about["stop_reason"] == "2 sets made"


def test_no_set_is_begun_that_would_end_after_the_time_limit(fake_launches: list[int], tmp_path: Path) -> None:
    ticks = iter(range(0, 10_000, 30))  # half a minute between any two looks at the clock: a minute or two a set
    ended = run_self_test(SelfTestSettings(time_limit_s=200.0), tmp_path / "out", clock=lambda: float(next(ticks)))
    assert 2 <= len(fake_launches) < 10
    assert ended.stop_reason.startswith("time limit of 200 s after")


def test_two_sets_are_made_whatever_the_time_limit_says(fake_launches: list[int], tmp_path: Path) -> None:
    run_self_test(SelfTestSettings(time_limit_s=0.001), tmp_path / "out")
    assert fake_launches == [1, 2]


def test_one_that_is_stopped_tells_what_it_has(
    fake_launches: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stop = StopSwitch()
    whole = Launcher.one_set

    def stopped_in_the_third(self: Launcher, set_number: int, workloads: list[Any]) -> Iterator[Trial]:
        if set_number == 3:
            stop.request("stopped by SIGINT")
            raise ChildStopped
        yield from whole(self, set_number, workloads)

    monkeypatch.setattr(Launcher, "one_set", stopped_in_the_third)
    ended = run_self_test(SelfTestSettings(), tmp_path / "out", stop=stop)
    assert (ended.stop_reason, fake_launches) == ("stopped by SIGINT", [1, 2])
    assert (tmp_path / "out" / "self-test.csv").is_file()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_sets": 0}, "max_sets must be a whole number of at least 1, not 0"),
        ({"time_limit_s": -1.0}, "time_limit_s must be a number of seconds above 0, not -1.0"),
        ({"time_budget_s": math.nan}, "time_budget_s must be a number of seconds above 0, not nan"),
        ({"threads": 0}, "threads must be a whole number of at least 1, not 0"),
    ],
)
def test_settings_that_break_a_rule_are_refused_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GridError, match=message):
        SelfTestSettings(**changes)


def test_the_command_prints_the_table_and_where_it_lies(fake_launches: list[int], tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["self-test", "--sets", "2", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "a  official against itself" in result.output
    assert result.output.rstrip().endswith(str(tmp_path / "out" / "self-test.csv"))


def test_the_command_fails_where_something_is_refuted(
    fake_launches: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("profiling.self_test.run.all_coverages", lambda _: [(MACHINES[0], 5, 1, 300, 400)])
    result = CliRunner().invoke(main, ["self-test", "--sets", "2", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "300 of 400" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "few"], "sets must be a whole number, not 'few'"),
        (["--time-limit", "soon"], "time_limit must be a number of seconds, not 'soon'"),
        (["--threads", "1.5"], "threads must be a whole number, not '1.5'"),
        (["--sets", "0"], "max_sets must be a whole number of at least 1, not 0"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_exit_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["self-test", *arguments])
    assert result.exit_code == 2
    assert message in result.output
