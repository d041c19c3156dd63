"""The searches beside a run's limits: the process behind them, what the page asks, and what it tells."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_fakes import FakeChecker
from dashboard_samples import make_run
from streamlit.testing.v1 import AppTest
from test_crossover_record import ANSWER, recorded

from dashboard import services, session
from dashboard.address import complaints
from dashboard.background import Slot
from dashboard.jobs import JobError, Jobs
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from dashboard.profiles import Profiles, Question
from dashboard.searches import MOST_ANSWERS, SearchAnswer, Searches, SearchQuestion
from profiling.device_lock import DeviceLock
from profiling.laws.crossover_question import BUDGET_S
from profiling.laws.crossover_search import AXES, Plan
from profiling.laws.next_commands import point_along, span_along
from profiling.settings import SweepSettings
from profiling.stopping import PAGES_SIGNAL
from profiling.table import load_run
from profiling.workload import Grid

VIEW = """
from dashboard import limits_panel, store
from profiling.run_list import list_runs
(run,) = list_runs().runs
limits_panel.show(run, store.table_of(run))
"""
# Of several runs, the one that is chosen.
CHOSEN = """
import streamlit as st
(run,) = [each for each in list_runs().runs if each.run_id == st.session_state["shown"]]
"""
GRID = Grid(batch_size=(3, 5), seq_len=(64, 96), num_heads=(2, 4), d_model=20, device="cpu", threads=2)
OWN = "my_attention.py:MyAttention"
# What the run holds fixed along its sequence lengths: the largest of the others.
FIXED = {
    **{"batch_size": 5, "num_heads": 4, "d_model": 20, "head_dim": None, "dtype": "float32", "mode": "inference"},
    **{"bias": False, "causal": False, "device": "cpu", "threads": 2, "heap": "pinned"},
}
FITS = {"words": ["custom fits up to seq_len 640 at batch 5", "a call might take 9 MiB of 10 MiB free"], "fits": 640}
EMPTY = SearchAnswer()
TELLS = "import sys; print(open('told.json').read())"
WAITS = "import sys; sys.stdin.read()"


class FakeSearches:
    """Remembers what it was asked for and starts nothing; the answer to every question is `answer`."""

    def __init__(self) -> None:
        self.running: Any = None
        self.answer: Any = None
        self.refusal: JobError | None = None
        self.started: list[SearchQuestion] = []
        self.is_stopped = False

    def answer_to(self, question: SearchQuestion) -> Any:
        return self.answer

    def start(self, question: SearchQuestion) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.started.append(question)

    def stop(self) -> None:
        self.is_stopped = True


class Going:
    """A search that goes on in the process `pid`."""

    def __init__(self, question: SearchQuestion, pid: int) -> None:
        self.question, self.pid, self.seconds, self.is_stopped = question, pid, 75.0, False
        self.aside, self.what = "at 64 custom faster than official", "the crossover of custom is being searched for"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unsynced: None) -> Path:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_attention.py").write_text("")
    return tmp_path / "results"


@pytest.fixture
def searches(results: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSearches]:
    """The tab's surroundings, with a run in them and nothing that measures."""
    fake, checks, slot = FakeSearches(), LiveChecks(FakeChecker), Slot()
    monkeypatch.setattr(services, "searches", lambda: fake)
    monkeypatch.setattr(services, "slot", lambda: slot)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", lambda: Layers(specs=(OWN,)))
    settings = SweepSettings(contenders=("custom", "official"), time_budget_s=0.25, quiet_wait_s=7.0)
    make_run(results / "r", grid=GRID, settings=settings)
    yield fake
    checks.close()


def tab(**params: str) -> AppTest:
    app = AppTest.from_string(VIEW, default_timeout=20)
    app.query_params.update(params)
    app.run()
    assert not app.exception
    return app


def text(app: AppTest) -> str:
    parts = (*app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.code)
    return "\n".join(part.value for part in parts).replace("\\", "")


def pressed(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception
    return app


# The process that searches.


def asked(number: int = 0, **changes: Any) -> SearchQuestion:
    kind = changes.pop("kind", "fits")
    return SearchQuestion(arguments=(kind, str(number)), contenders=("custom",), device="cpu", **changes)


def searching(code: str, slot: Slot | None = None) -> Searches:
    return Searches([sys.executable, "-S", "-c", code], slot)


def test_an_answer_is_what_the_process_told_and_nothing_stays_of_it(tmp_path: Path) -> None:
    (tmp_path / "told.json").write_text(json.dumps(FITS))
    made = searching(TELLS)
    assert made.answer_to(asked()) is None
    made.start(asked())
    assert made.wait(20)
    answer = made.answer_to(asked())
    assert answer is not None
    assert (answer.words, answer.told["fits"], answer.error) == (tuple(FITS["words"]), 640, "")  # type: ignore[arg-type]  # words are a list
    assert made.answer_to(asked(stamp=(1,))) is None, "a layer that was edited is asked about anew"
    assert not list(tmp_path.glob("mha-bench-job-*"))


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import sys; print('{\"error\": \"no\"}'); sys.exit('error: it needs 9 GiB')", "it needs 9 GiB"),
        ("import os; os._exit(3)", "the search ended with status 3"),
        ("print('[1]')", "the search ended with status 0"),
    ],
)
def test_a_process_that_tells_no_answer_is_told_by_its_last_words(code: str, sentence: str) -> None:
    made = searching(code)
    made.start(asked())
    assert made.wait(20)
    answer = made.answer_to(asked())
    assert answer is not None
    assert (answer.error, answer.words) == (sentence, ())


def test_a_stopped_search_tells_what_it_knew_and_is_no_news_where_it_knew_nothing(tmp_path: Path) -> None:
    tells = f"lambda *_: (print({json.dumps(FITS)!r}, flush=True), os._exit(130))"
    knows = f"import signal, sys, os; signal.signal({int(PAGES_SIGNAL)}, {tells})"
    made = searching(f"{knows}; print('ready', file=sys.stderr, flush=True); sys.stdin.read()")
    made.start(asked())
    while made.running is not None and not made.running.aside:
        pass
    made.stop()
    assert made.wait(20)
    answer = made.answer_to(asked())
    assert answer is not None
    assert answer.words == tuple(FITS["words"])  # type: ignore[arg-type]  # words are a list
    made = searching(WAITS)
    made.start(asked())
    made.stop()
    assert made.wait(20)
    assert made.answer_to(asked()) is None


# What a command that the page starts does with its signals, and no more.
LISTENS = """
import json, sys, time
from profiling.stopping import StopSwitch
stop = StopSwitch()
stop.on_signals()
stop.on_end_of_input()
print("ready", file=sys.stderr, flush=True)
while not stop.is_requested():
    time.sleep(0.01)
print(json.dumps({"words": [f"the search ended early: {stop.reason}"]}))
"""


def test_a_button_is_told_as_such_and_a_signal_that_someone_sends_by_its_name() -> None:
    for how in ("on the page", "by SIGTERM"):
        made = Searches([sys.executable, "-c", LISTENS])
        made.start(asked())
        running = made.running
        assert running is not None
        while not running.aside:
            pass
        if how == "on the page":
            made.stop()
        else:
            os.kill(running.pid, signal.SIGTERM)
        assert made.wait(20)
        answer = made.answer_to(asked())
        assert answer is not None
        assert answer.words == (f"the search ended early: stopped {how}",)


def test_one_thing_at_a_time_is_searched_or_profiled_and_no_sweep_begins_beside_a_search() -> None:
    slot = Slot()
    made, profiles = searching(WAITS, slot), Profiles([sys.executable, "-S", "-c", WAITS], slot)
    jobs = Jobs(made.refusal)
    made.start(asked(kind="crossover"))
    try:
        with pytest.raises(JobError, match="the crossover of custom is being searched for; stop that"):
            made.start(asked(1))
        with pytest.raises(JobError, match="the crossover of custom is being searched for"):
            profiles.start(Question(arguments=("profile",), contenders=("custom",), device="cpu"))
        with pytest.raises(JobError, match="Not started: the crossover of custom is being searched for"):
            jobs.start(GRID, SweepSettings(), "cpu")
        profiles.stop()  # which is not its own
        assert made.running is not None
        assert not made.running.is_stopped
    finally:
        slot.close()
    assert made.refusal() == ""


def test_nothing_is_searched_beside_a_sweep_and_a_step_is_named_with_its_search(tmp_path: Path) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="step-2", folder=tmp_path / "a-crossover" / "step-2")
    try:
        with pytest.raises(JobError, match=r"cpu is busy since .* with sweep a-crossover/step-2"):
            searching(WAITS).start(asked())
    finally:
        lock.release()


def test_old_answers_are_forgotten(tmp_path: Path) -> None:
    made = searching(WAITS)

    class Found:
        is_stopped = False

        def __init__(self, number: int) -> None:
            self.question = asked(number)

        def found(self) -> Any:
            return dataclasses.replace(EMPTY, at=str(self.question))

    for number in range(MOST_ANSWERS + 1):
        made._keep(Found(number))  # type: ignore[arg-type]  # all that is asked of a search that has ended
    assert made.answer_to(asked()) is None
    assert made.answer_to(asked(1)) is not None


# What the page asks.


def test_what_stays_the_same_is_the_largest_and_the_sizes_reach_beyond_the_runs_own(
    searches: Any, results: Path
) -> None:
    table = load_run(results / "r")
    point = point_along(table, "seq_len")
    assert point is not None
    assert (point.batch_size, point.num_heads, point.d_model, point.threads) == (5, 4, 20, 2)
    assert span_along(table, "seq_len") == (32, 192)
    assert point_along(table[:0], "seq_len") is None


def test_the_button_asks_what_the_choices_say(searches: FakeSearches, tmp_path: Path) -> None:
    app = tab(cross_one=OWN, cross_other="custom")
    assert "First 32, 64, 128, 192, each in 5 replicates: ≈ " in text(app)
    pressed(app, "find_crossover")
    (question,) = searches.started
    words = " ".join(question.arguments)
    assert words.startswith(
        f"crossover --contenders {tmp_path}/{OWN},custom --axis seq_len --from 32 --to 192 --batch-size 5 "
    )
    assert words.endswith("--reference official --heap pinned --time-budget 0.25 --quiet-wait 7")
    assert (question.contenders, question.device) == (("MyAttention", "custom"), "cpu")
    assert any(words in code.value for code in app.code), "the same to copy"


def test_along_the_heads_only_those_that_divide_the_width_are_searched(searches: FakeSearches) -> None:
    app = tab(cross_axis="num_heads")
    assert "First 1, 2, 4, 5, each in 5 replicates" in text(app)
    app.number_input(key=session.crossover_end("From", "num_heads")).set_value(6)
    app.number_input(key=session.crossover_end("To", "num_heads")).set_value(9).run()
    assert "two num_heads from 6 to 9 must divide d_model 20, and none does" in text(app)
    assert app.button(key="find_crossover").disabled


@pytest.mark.parametrize("axis", AXES)
def test_between_which_sizes_is_searched_stands_in_the_address(searches: FakeSearches, axis: str) -> None:
    low, high = (session.crossover_end(end, axis) for end in ("from", "to"))
    app = tab(cross_axis=axis, **{low: "2", high: "5"})
    assert [app.number_input(key=key).value for key in (low, high)] == [2, 5]
    assert [app.number_input(key=key).proto.query_param_key for key in (low, high)] == [low, high]
    assert any("--from 2 --to 5" in code.value for code in app.code)
    assert list(complaints({low: ["0"], high: ["x"]})) == [low, high]


def test_beside_another_run_the_sizes_are_its_own(searches: FakeSearches, results: Path) -> None:
    make_run(results / "s", grid=dataclasses.replace(GRID, seq_len=(160, 352)))
    choice = VIEW.replace("(run,) = list_runs().runs", CHOSEN)
    app = AppTest.from_string(choice, default_timeout=20)
    low, high = (session.crossover_end(end, "seq_len") for end in ("from", "to"))
    app.query_params.update({"shown": "r", low: "40"})
    for name, ends in (("r", (40, 192)), ("s", (80, 704)), ("r", (32, 192))):
        app.session_state["shown"] = name
        app.run()
        assert not app.exception
        assert tuple(app.number_input(key=key).value for key in (low, high)) == ends


def test_what_cannot_be_asked_is_a_sentence(searches: FakeSearches, tmp_path: Path) -> None:
    app = tab(cross_one="official")
    assert "the two contenders must differ, and both are 'official'" in text(app)
    assert app.button(key="find_crossover").disabled
    (tmp_path / "my_attention.py").unlink()
    app = tab(cross_one=OWN, fits_one=OWN)
    assert "there is no file my_attention.py" in text(app)
    assert app.button(key="find_fit").disabled


def test_why_nothing_can_begin_now_is_told(searches: FakeSearches) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="r-7")
    try:
        app = tab()
    finally:
        lock.release()
    assert app.button(key="find_crossover").disabled
    assert app.button(key="find_fit").disabled
    assert "with sweep r-7, which a search would disturb" in text(app)
    searches.refusal = JobError("Not started: no process.")
    assert text(pressed(tab(), "find_crossover")).count("Not started: no process.") == 1


def test_a_refusal_is_told_no_longer_than_its_reason_holds(
    searches: FakeSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tab()
    other = asked(kind="crossover")
    monkeypatch.setattr(services, "slot", lambda: searches)
    searches.running, searches.refusal = Going(other, 1), JobError("Not started: another is being searched for.")
    assert "Not started: another" in text(pressed(app, "find_crossover"))
    searches.running = None
    app.run()
    assert "Not started" not in text(app)
    assert not app.button(key="find_crossover").disabled


@pytest.mark.parametrize("key", ["find_crossover", "find_fit"])
def test_what_came_of_a_search_is_not_told_while_it_is_searched_anew(
    searches: FakeSearches, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    app = pressed(tab(), key)
    searches.answer = dataclasses.replace(EMPTY, error="its folder is gone")
    app.run()
    assert text(app).count("Not found: its folder is gone.") == 2
    monkeypatch.setattr(services, "slot", lambda: searches)
    searches.running = Going(searches.started[0], 1)
    app.run()
    assert not app.exception
    assert text(app).count("Not found: its folder is gone.") == 1


# What the page tells.


def test_the_newest_answer_on_the_disk_is_told_drawn_and_dated(searches: FakeSearches, results: Path) -> None:
    recorded(results, "a", fixed=FIXED, started_at="2026-03-01T19:08:11+00:00")
    app = tab()
    assert "**Custom is faster from seq_len 96 on.**" in text(app)
    assert "Measured 2026-03-01" in text(app)
    assert "Test CPU · 2 threads" in text(app)
    assert "`a-crossover`" in text(app)
    (chart,) = [each for each in app.get("plotly_chart") if "up of custom over official" in each.proto.alt]
    assert "96: 1.30" in chart.proto.alt.replace("\\", "")
    assert "Custom is faster" not in text(tab(cross_axis="batch_size"))


def test_beside_an_answer_stands_the_command_that_found_it(searches: FakeSearches, results: Path) -> None:
    app = pressed(tab(), "find_crossover")
    (question,) = searches.started
    asked = {**vars(Plan(low=64, high=160, step=32)), "budget_s": BUDGET_S}
    options = {
        **{"batch_size": [5], "num_heads": [4], "d_model": 20, "device": "cpu", "threads": 2},
        **{"time_budget_s": 0.25, "quiet_wait_s": 7.0},
    }
    recorded(results, "a", fixed=FIXED, asked={**asked, "options": options})
    words, chosen = " ".join(question.arguments), "What is chosen now at the command line:"
    app = tab()
    assert "This answer at the command line:" in text(app)
    commands = [code.value for code in app.code if "crossover" in code.value]
    assert [words.replace("--from 32 --to 192", "--from 64 --to 160") in commands[0], words in commands[1]] == [
        True
    ] * 2
    app = tab(cross_from_seq_len="64", cross_to_seq_len="160")
    assert chosen not in text(app)
    assert [code.value for code in app.code if "crossover" in code.value] == commands[:1]
    recorded(results, "b", fixed=FIXED, asked={"low": 32, "high": 192})  # which does not say enough
    app = tab()
    assert [code.value for code in app.code if "crossover" in code.value] == commands[1:]
    assert chosen in text(app)


def test_an_answer_that_was_cut_short_or_of_another_source_says_so(searches: FakeSearches, results: Path) -> None:
    (where,) = ({OWN: f"{results.parent}/{OWN}"},)
    answer = {**ANSWER, "words": [f"{results.parent}/{OWN} is never faster"]}
    recorded(
        results, "a", fixed=FIXED, first=OWN, places=where, sources={OWN: "before"}, answer=answer, state="stopped",
        state_reason="stopped by SIGTERM",
    )  # fmt: skip
    told = text(tab(cross_one=OWN))
    assert "MyAttention is never faster" in told
    assert "not brought to its end: stopped by SIGTERM" in told
    assert "file was edited since" in told


def test_while_it_is_searched_what_is_known_is_told_and_it_can_be_stopped(
    searches: FakeSearches, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pressed(tab(), "find_crossover")
    record = recorded(results, "a", fixed=FIXED, state="running")
    make_run(record.folder / "step-1", state="running", done=3)
    searches.running = Going(searches.started[0], record.pid)
    monkeypatch.setattr(services, "slot", lambda: searches)
    app = tab()
    assert "Searching · 1 min 15 s elapsed · step 1, 3 of 8 measured · batch 4, seq_len 512" in text(app)
    assert "at 64 custom faster than official …" in text(app)
    assert "So far custom is faster from seq_len 96 on" in text(app)
    assert app.button(key="find_crossover").disabled
    assert app.button(key="find_fit").disabled
    pressed(app, "stop_search")
    assert searches.is_stopped


def test_the_longest_sequence_is_asked_and_told(searches: FakeSearches) -> None:
    app = pressed(tab(), "find_fit")
    (question,) = searches.started
    assert question.arguments[:2] == ("fits", "custom")
    assert "--seq-len" not in question.arguments
    assert "until a call no longer fits into 90 % of" in text(app)
    assert "compiled anew" not in text(app)
    searches.answer = dataclasses.replace(EMPTY, told=FITS, at="2026-03-01T19:08:11+00:00")
    told = text(tab())
    assert "**Custom fits up to seq_len 640 at batch 5.**" in told
    assert "- A call might take 9 MiB of 10 MiB free." in told
    assert "Tried 2026-03-01" in told
    searches.answer = dataclasses.replace(EMPTY, error="it needs 9 GiB")
    assert "Not found: it needs 9 GiB." in text(tab())


def test_how_slow_a_compiled_contender_is_tried_is_told_before(results: Path, searches: FakeSearches) -> None:
    make_run(
        results / "r", grid=GRID, settings=SweepSettings(contenders=("compiled:custom", "official"), quiet_wait_s=7.0)
    )
    told = text(tab(fits_one="compiled:custom"))
    assert "half an hour at most. Each length is compiled anew in a process of its own" in told
