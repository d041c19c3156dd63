"""What a search for a crossover leaves on the disk, and how it is found again."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up_runs import FakeChild

from profiling.child_process import ChildStopped
from profiling.commands.crossover import crossover
from profiling.device_lock import DeviceBusy, DeviceLock
from profiling.laws.crossover_command import command_of
from profiling.laws.crossover_list import answer_to, list_records, place_of, running_search, steps_of
from profiling.laws.crossover_question import CrossoverQuestion
from profiling.laws.crossover_record import RECORD_FILE, Record, RecordWriter, as_it_is, read_record
from profiling.laws.crossover_run import find_crossover
from profiling.laws.crossover_search import Plan, Probe
from profiling.run_list import Listing, list_runs
from profiling.runs import RunError
from profiling.stopping import StopSwitch
from profiling.workload import GridError, Workload

TINY = {"batch_size": (2,), "num_heads": (3,), "d_model": 15, "device": "cpu", "threads": 1, "quiet_wait_s": 0.0}
WORKLOAD = Workload(
    **{"batch_size": 2, "seq_len": 1, "num_heads": 3, "d_model": 15, "dtype": "float32", "device": "cpu"},
    **{"mode": "inference", "bias": False, "causal": False, "threads": 1, "seed": 42},
)
QUESTION = CrossoverQuestion(
    first="custom", second="official", axis="seq_len", low=32, high=128, workload=WORKLOAD, heap="pinned"
)
PLAN = Plan(low=32, high=64, step=32, replicates=2, max_replicates=2)
KNOWN = {"replicates": 5, "lost": None}
ANSWER = {
    **{"first": "custom", "second": "official", "axis": "seq_len", "kind": "from", "winner": "custom"},
    **{"from_size": 96, "to_size": None, "words": ["custom is faster from seq_len 96 on"], "runs": [], "stopped": None},
    "probes": [
        {
            "size": 32,
            "sign": "slower",
            "replicates": 5,
            "lost": None,
            "ratio": 0.8,
            "ratio_low": 0.7,
            "ratio_high": 0.9,
        },
        {
            "size": 96,
            "sign": "faster",
            "replicates": 5,
            "lost": None,
            "ratio": 1.3,
            "ratio_low": 1.2,
            "ratio_high": 1.4,
        },
    ],
}


def recorded(results: Path, name: str, **changes: Any) -> Record:
    """A search as it ended, answered; `changes` replace fields."""
    asked = {"first": "custom", "second": "official", "axis": "seq_len", "fixed": QUESTION.fixed}
    writer = RecordWriter(results / f"{name}-crossover", **asked, asked={}, places={}, sources={})
    writer.update(**{"state": "finished", "answer": ANSWER, "device_name": "Test CPU", **changes})
    return writer.record


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    return tmp_path


def test_a_search_whose_record_cannot_be_written_leaves_no_folder(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunError("no space left on device")

    monkeypatch.setattr("profiling.laws.crossover_record.write_aside", full)
    with pytest.raises(RunError, match="no space left"):
        find_crossover("custom", "official", "seq_len", PLAN, TINY)
    assert list(results.iterdir()) == []


@pytest.mark.usefixtures("unsynced", "fake")
def test_a_search_is_one_folder_that_answers_its_question_and_that_no_list_of_runs_shows(results: Path) -> None:
    found, folder = find_crossover("custom", "official", "seq_len", PLAN, TINY)
    (record,) = list_records()
    assert record.folder == folder
    assert steps_of(record) == [folder / "step-1"] == [Path(found.folders[0])]
    assert (record.state, record.state_reason, record.updated_at >= record.started_at) == ("finished", "", True)
    assert [(each.size, each.sign, each.replicates) for each in record.sizes] == [(32, "same", 2), (64, "same", 2)]
    assert record.fixed == QUESTION.fixed
    assert answer_to(QUESTION, (record,)) == record
    assert list_runs(results) == Listing()


@pytest.mark.usefixtures("unsynced", "fake")
def test_what_a_replicate_has_found_is_told_before_its_step_has_ended(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[list[tuple[int, int]]] = []

    class Listening(RecordWriter):
        def update(self, **changes: Any) -> None:
            super().update(**changes)
            told.append([(each.size, each.replicates) for each in self.record.sizes])

    monkeypatch.setattr("profiling.laws.crossover_run.RecordWriter", Listening)
    find_crossover("custom", "official", "seq_len", dataclasses.replace(PLAN, replicates=3, max_replicates=3), TINY)
    # As it begins; after each of three replicates, the last of which ends the step; and as it ends.
    assert told == [[], [(32, 1), (64, 1)], [(32, 2), (64, 2)], [(32, 3), (64, 3)], [(32, 3), (64, 3)]]


@pytest.mark.usefixtures("unsynced")
def test_what_a_step_has_found_is_kept_whatever_ends_the_next_one(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """What no search expects."""

    class Prober:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.asked = 0

        def __call__(self, step: Any) -> tuple[list[Probe], None]:
            self.asked += 1
            if self.asked == 2:
                (running,) = list_records()
                assert (running.state, running.is_told) == ("running", True)
                raise Killed
            ratios = (0.5, 2.0)
            return [Probe(size=size, ratios=(r, r)) for size, r in zip(step.sizes, ratios, strict=True)], None

    monkeypatch.setattr("profiling.laws.crossover_run.SweepProber", Prober)
    plan = Plan(low=32, high=640, step=32, num_first=2, replicates=2, max_replicates=2)
    with pytest.raises(Killed):
        find_crossover("custom", "official", "seq_len", plan, TINY)
    (record,) = list_records()
    assert (record.state, record.state_reason) == ("stopped", "Killed")
    assert [each.size for each in record.sizes] == [32, 640]


@pytest.mark.usefixtures("unsynced", "fake")
@pytest.mark.parametrize("num_written", range(1, 4))
def test_what_was_measured_is_told_also_where_it_cannot_be_recorded_any_more(
    results: Path, monkeypatch: pytest.MonkeyPatch, num_written: int
) -> None:
    class Full(RecordWriter):
        def update(self, **changes: Any) -> None:
            self.written = getattr(self, "written", 0) + 1
            if self.written > num_written:
                raise RunError("no space left on device")
            super().update(**changes)

    monkeypatch.setattr("profiling.laws.crossover_run.RecordWriter", Full)
    found, folder = find_crossover("custom", "official", "seq_len", PLAN, TINY)
    assert [probe.size for probe in found.probes] == [32, 64]
    assert found.stopped == "no space left on device"
    assert folder is not None
    assert (folder / "step-1" / "measurements.csv").is_file()


@pytest.mark.usefixtures("unsynced", "fake")
def test_what_was_measured_is_told_also_where_its_folder_is_deleted_meanwhile(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleted(probe: Probe) -> None:
        for folder in results.iterdir():
            shutil.rmtree(folder)

    found, folder = find_crossover("custom", "official", "seq_len", PLAN, TINY, on_probe=deleted)
    assert ([probe.size for probe in found.probes], folder) == ([32, 64], None)
    assert found.stopped


@pytest.mark.usefixtures("unsynced", "fake")
def test_a_search_that_measures_nothing_leaves_nothing(results: Path) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="r")
    try:
        with pytest.raises(DeviceBusy):
            find_crossover("custom", "official", "seq_len", PLAN, TINY)
    finally:
        lock.release()
    assert list(results.iterdir()) == []


@pytest.mark.usefixtures("unsynced")
def test_a_search_that_is_stopped_at_once_says_so_and_leaves_no_answer(results: Path, fake: type[FakeChild]) -> None:
    stop = StopSwitch()
    stop.request("stopped by hand")
    try:
        found, _ = find_crossover("custom", "official", "seq_len", PLAN, TINY, stop=stop)
    except ChildStopped:
        return
    assert found.stopped == "stopped by hand"
    assert answer_to(QUESTION, list_records()) is None


@pytest.mark.usefixtures("unsynced")
def test_a_search_whose_process_is_gone_is_told_as_stopped(results: Path) -> None:
    recorded(results, "a", state="running", process_started=1.0)
    (record,) = list_records()
    assert (record.state, record.state_reason) == ("stopped", "its process ended without a word")


@pytest.mark.usefixtures("unsynced")
def test_a_search_that_runs_is_found_by_its_process(results: Path) -> None:
    record = recorded(results, "a", state="running")
    assert running_search(list_records(), record.pid) == record
    assert running_search(list_records(), record.pid + 1) is None
    elsewhere = dataclasses.replace(record, host="another machine")
    assert running_search((elsewhere,), record.pid) is None


@pytest.mark.usefixtures("unsynced")
def test_a_search_of_another_machine_that_has_been_silent_for_hours_is_told_as_stopped(results: Path) -> None:
    record = recorded(results, "a", state="running", host="another machine")
    assert as_it_is(record).state == "running"
    silent = dataclasses.replace(record, updated_at="2026-01-02T03:05:07+00:00")
    assert as_it_is(silent).state == "stopped"


@pytest.mark.usefixtures("unsynced")
def test_the_newest_that_came_to_its_end_answers_and_else_the_newest_that_knows_something(results: Path) -> None:
    old = recorded(results, "old", started_at="2026-01-01T00:00:00+00:00", state="stopped")
    assert answer_to(QUESTION, list_records()) == old
    ended = recorded(results, "ended", started_at="2026-01-02T00:00:00+00:00")
    later = recorded(results, "later", started_at="2026-01-03T00:00:00+00:00", state="stopped")
    recorded(results, "nothing", started_at="2026-01-04T00:00:00+00:00", answer={})
    assert [record.started_at[9] for record in list_records()] == ["4", "3", "2", "1"]
    assert answer_to(QUESTION, list_records()) == ended
    assert answer_to(QUESTION, (later, old)) == later


@pytest.mark.parametrize(
    "changes",
    [
        {"second": "official-fused"},
        {"axis": "batch_size"},
        {"heap": "as-is"},
        {"workload": dataclasses.replace(WORKLOAD, batch_size=7)},
        {"workload": dataclasses.replace(WORKLOAD, threads=2)},
        {"workload": dataclasses.replace(WORKLOAD, device="cuda:0")},
    ],
)
@pytest.mark.usefixtures("unsynced")
def test_another_question_has_another_answer(results: Path, changes: dict[str, Any]) -> None:
    record = recorded(results, "a")
    assert answer_to(dataclasses.replace(QUESTION, **changes), (record,)) is None


@pytest.mark.usefixtures("unsynced")
def test_a_search_between_the_very_sizes_answers_before_a_newer_one_between_others(results: Path) -> None:
    same = recorded(results, "a", started_at="2026-01-01T00:00:00+00:00", asked={"low": 32, "high": 128})
    other = recorded(results, "b", started_at="2026-01-02T00:00:00+00:00", asked={"low": 32, "high": 160})
    assert answer_to(QUESTION, list_records()) == same
    assert answer_to(dataclasses.replace(QUESTION, low=64), list_records()) == other
    cut = dataclasses.replace(same, state="stopped")
    assert answer_to(QUESTION, (other, cut)) == other, "one that came to its end says more"


WORDS = CrossoverQuestion(
    **{"first": "custom", "second": "compiled:official", "axis": "seq_len", "low": 32, "high": 224},
    **{"workload": dataclasses.replace(WORKLOAD, mode="training", bias=True, seed=7), "reference": "official-fused"},
    **{"heap": "as-is", "time_budget_s": 0.05, "quiet_wait_s": 0.0},
).arguments


@pytest.mark.parametrize(
    "words",
    [
        WORDS,
        QUESTION.arguments,
        dataclasses.replace(QUESTION, axis="batch_size", workload=dataclasses.replace(WORKLOAD, seq_len=5)).arguments,
        dataclasses.replace(QUESTION, axis="num_heads", low=1, high=5).arguments,
        dataclasses.replace(QUESTION, axis="num_heads", head_dim=6, low=1, high=5).arguments,
        (*WORDS, "--step", "16", "--within", "0.25", "--replicates", "3", "--max-replicates", "7", "--budget", "90"),
        (*WORDS, "--anyway"),
    ],
)
@pytest.mark.usefixtures("unsynced", "own_signals")
def test_a_record_tells_the_command_that_asked_it(
    results: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise ChildStopped

    monkeypatch.setattr("profiling.laws.crossover_run.search", ended)
    monkeypatch.setattr("profiling.laws.crossover_run._discard_empty", lambda _: None)
    assert CliRunner().invoke(crossover, words[1:]).exit_code == 130
    (record,) = list_records()
    assert command_of(record) == words


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"low": 32, "high": 64, "options": {}},
        {**vars(PLAN), "budget_s": None, "options": 7},
        {**vars(PLAN), "budget_s": "x", "options": {}},
        {**vars(PLAN), "low": "32", "budget_s": None, "options": {}},
        {**vars(PLAN), "budget_s": None, "options": {"batch_size": "x"}},
        {**vars(PLAN), "budget_s": None, "options": {"unheard_of": 1}},
    ],
)
@pytest.mark.usefixtures("unsynced")
def test_a_record_that_does_not_say_enough_tells_no_command(results: Path, asked: dict[str, Any]) -> None:
    assert command_of(recorded(results, "a", asked=asked)) is None


@pytest.mark.usefixtures("unsynced")
def test_the_two_may_be_asked_for_in_either_order_and_own_layers_from_any_folder(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results / "mine.py").write_text("")
    monkeypatch.chdir(results)
    record = recorded(results, "a", first="mine.py:A", places={"mine.py:A": f"{results}/mine.py:A"})
    turned = dataclasses.replace(QUESTION, first="official", second=f"{results}/mine.py:A")
    assert answer_to(turned, (record,)) == record
    assert place_of("compiled:mine.py:A") == f"compiled:{results}/mine.py:A"
    assert answer_to(dataclasses.replace(turned, second="compiled:mine.py:A"), (record,)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 2},
        {"first": 3},
        {"answer": {"probes": [{"size": 0, "sign": "faster", "replicates": 5}]}},
        {"answer": {"probes": [{"size": 32, "sign": "faster", "replicates": 5, "ratio": -1.0}]}},
        {"answer": {"probes": [{"size": 32, "length": 5}]}},
        {"answer": []},
        {"state": "bored"},
        {"state": "running", "process_started": "yesterday"},
        {"places": {"custom": []}},
        {"sources": {"custom": 5}},
        *({"answer": {**ANSWER, "words": words}} for words in ([], None, 5, "custom is faster", {"a": 1}, [None])),
        {"answer": {"probes": ANSWER["probes"]}},
    ],
)
@pytest.mark.usefixtures("unsynced")
def test_what_no_search_writes_is_passed_over(results: Path, changes: dict[str, Any]) -> None:
    path = recorded(results, "a").folder / RECORD_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert list_records() == ()
    with pytest.raises(RunError, match=r"crossover\.json"):
        read_record(path.parent)


def test_what_is_asked_is_a_command_line_of_what_stays_the_same() -> None:
    words = QUESTION.arguments
    assert words[:3] == ("crossover", "--contenders", "custom,official")
    assert "--seq-len" not in words
    assert words[words.index("--d-model") + 1] == "15"
    grown = dataclasses.replace(QUESTION, axis="num_heads", low=1, high=6, head_dim=5)
    assert grown.arguments[grown.arguments.index("--head-dim") + 1] == "5"
    assert not {"--d-model", "--num-heads"} & set(grown.arguments)
    assert grown.fixed["d_model"] is None


def test_what_it_will_take_is_told_of_the_first_sizes_and_of_a_further_one() -> None:
    expected = QUESTION.first_look()
    assert expected.num_points == 4  # 32, 64, 96, 128: multiples of 32
    # 5 replicates of 4 sizes, each with two contenders and a clone of the reference for half a second.
    assert expected.seconds > 5 * 4 * 3 * 0.5
    assert QUESTION.further_size_s() < expected.seconds
    with pytest.raises(GridError, match="must divide d_model 15"):
        dataclasses.replace(QUESTION, axis="num_heads", low=6, high=14).first_look()
