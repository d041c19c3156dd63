"""The page's tabs and buttons that hold the evidence of a run: samples of a point, replicates to add, captions."""

import shutil
from types import SimpleNamespace

import pytest
from dashboard_fakes import FakeChecker, FakeJobs, opened
from dashboard_samples import make_run, without_numbers

from dashboard import replicate_panel, run_picker, sample_panel, services
from dashboard.jobs import JobError
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from profiling.settings import SweepSettings
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(16, 32), num_heads=(4, 8), d_model=64, device="cpu")
FIVE = SweepSettings(contenders=("custom",), replicates=5)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def live_checks(monkeypatch):
    checks = LiveChecks(FakeChecker)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", Layers)
    yield checks
    checks.close()


@pytest.fixture(autouse=True)
def jobs(monkeypatch):
    fake = FakeJobs()
    monkeypatch.setattr(services, "jobs", lambda: fake)
    return fake


def text(app):
    parts = [part.value for part in (*app.markdown, *app.caption, *app.info, *app.warning, *app.error)]
    return "\n".join(parts).replace("\\", "")


def test_the_samples_tab_opens_at_the_slowest_point_with_three_charts_and_words(results):
    make_run(results / "r", grid=GRID, settings=FIVE, num_rounds=23)
    app = opened(tab="Samples")
    assert (app.selectbox(key="sample_seq_len").value, app.selectbox(key="sample_num_heads").value) == ("32", "8")
    charts = app.get("plotly_chart")
    assert len(charts) == 3
    assert all("345 samples of 5 replicates" in chart.proto.alt for chart in charts)
    shown = text(app)
    assert "**custom** over official" in shown
    assert "rep 5: " in shown
    assert list(app.dataframe[0].value["contender"]) == ["custom", "official"]
    assert "--seq-len 32" in app.code[0].value


def test_the_link_names_the_point_and_the_choice_changes_it(results):
    make_run(results / "r", grid=GRID, settings=FIVE, num_rounds=23)
    app = opened(tab="Samples", sample_seq_len="16", sample_num_heads="4")
    assert "--seq-len 16" in app.code[0].value
    app.selectbox(key="sample_num_heads").set_value("8").run()
    assert "--num-heads 8" in app.code[0].value
    assert "--seq-len 16" in app.code[0].value


def test_a_chosen_point_stays_while_further_ones_are_measured(results):
    make_run(results / "r", grid=GRID, state="running", done=2, num_rounds=7)
    app = opened(tab="Samples")
    assert app.selectbox(key="sample_seq_len").value == "32"  # the last one measured
    app.selectbox(key="sample_seq_len").set_value("16").run()
    shutil.rmtree(results / "r")
    make_run(results / "r", grid=GRID, state="running", done=4, num_rounds=7)
    app.run()
    assert (app.selectbox(key="sample_seq_len").value, app.selectbox(key="sample_num_heads").value) == ("16", "4")
    assert "--seq-len 16" in app.code[0].value


def test_a_link_to_a_point_that_the_run_does_not_have_shows_the_first_one(results):
    make_run(results / "r", grid=GRID, settings=FIVE, num_rounds=23)
    assert opened(tab="Samples", sample_seq_len="99").selectbox(key="sample_seq_len").value == "32"


def test_a_run_of_one_point_asks_for_no_choice(results):
    grid = Grid(batch_size=(2,), seq_len=(16,), num_heads=(4,), d_model=64, device="cpu")
    make_run(results / "r", grid=grid, num_rounds=7)
    app = opened(tab="Samples")
    assert not [box for box in app.selectbox if str(box.key).startswith("sample_")]
    assert len(app.get("plotly_chart")) == 3


def test_a_point_without_samples_has_its_words(results):
    make_run(results / "r", grid=GRID, settings=FIVE)
    app = opened(tab="Samples")
    assert "No raw samples of this point are kept" in text(app)
    assert not app.get("plotly_chart")
    assert "**custom** over official" in text(app)


def test_a_point_that_failed_says_so_and_one_to_come_as_well(results):
    lost = {(4, name): without_numbers("oom", "out of memory") for name in ("custom", "official")}
    make_run(results / "r", grid=GRID, settings=FIVE, num_rounds=7, changes=lost)
    assert "**oom**: out of memory" in text(opened(tab="Samples", sample_seq_len="32", sample_num_heads="8"))
    make_run(results / "s", grid=GRID, done=1, num_rounds=7, state="stopped", started_at="2026-03-09T00:00:00+00:00")
    assert "not measured yet" in text(opened(tab="Samples", sample_seq_len="32", sample_num_heads="8"))


def test_a_file_of_samples_that_is_none_is_told_and_the_page_stands(results):
    make_run(results / "r", grid=GRID, settings=FIVE)
    (results / "r" / "samples.csv").write_text("a;b\n1;2\n")
    app = opened(tab="Samples")
    assert "The samples cannot be shown" in text(app)
    assert app.button(key="run_sweep")


def test_a_closed_samples_tab_reads_nothing(results, monkeypatch):
    make_run(results / "r", grid=GRID, settings=FIVE, num_rounds=7)
    asked = []
    monkeypatch.setattr(sample_panel, "show", lambda *args: asked.append(args))
    opened(tab="Latency")
    assert asked == []
    opened(tab="Samples")
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("marks", "opened_at"),
    [
        ([{"customdata": 3}], {"tab": "Samples", "sample_seq_len": "16", "sample_num_heads": "8"}),
        ([{"x": 1}, {"customdata": 2}], {"tab": "Samples", "sample_seq_len": "32", "sample_num_heads": "4"}),
        ([], {}),
        ([{"customdata": 99}], {}),
        ([{"customdata": "sneaky"}], {}),
    ],
)
def test_a_click_on_a_mark_opens_the_samples_of_its_point(results, monkeypatch, marks, opened_at):
    run = make_run(results / "r", grid=GRID)
    state = {"chart_Latency": {"selection": {"points": marks}}}
    monkeypatch.setattr(sample_panel.st, "session_state", state)
    sample_panel.open_clicked(run, "chart_Latency", "Samples")
    assert {key: value for key, value in state.items() if key != "chart_Latency"} == opened_at


def test_the_speedup_chart_says_what_its_marks_mean(results):
    make_run(results / "r", grid=GRID, settings=FIVE)
    assert "Bars: 95 % interval across replicates" in text(opened(latency_as="speed-up"))
    assert "Bars:" not in text(opened(latency_as="time"))


def test_replicates_are_added_to_a_run_that_has_too_few(results, jobs):
    make_run(results / "r", grid=GRID)
    app = opened()
    button = app.button(key="add_replicates")
    assert (button.label, button.disabled) == ("Add replicates (to 5)", False)
    assert "more: a verdict on speed needs 5 replicates, this run has 1." in text(app)
    button.click().run()
    assert jobs.added == [("r", 5)]


def test_a_refusal_to_add_replicates_is_told(results, jobs):
    make_run(results / "r", grid=GRID)
    jobs.refusal = JobError("Not started: cpu is busy since noon")
    app = opened()
    app.button(key="add_replicates").click().run()
    assert "busy since noon" in app.error[0].value


def test_what_the_sweep_itself_refused_stands_beside_the_finished_run_until_it_has_more(results, jobs):
    refused = SimpleNamespace(
        run_id="r", replicates=5, stop_requested=False, error="run r cannot be resumed: its source"
    )
    jobs.last = refused
    make_run(results / "r", grid=GRID)
    assert "cannot be resumed" in text(opened())
    make_run(results / "r2", grid=GRID)
    assert "cannot be resumed" in text(opened(run="r2"))
    shutil.rmtree(results / "r")
    make_run(results / "r", grid=GRID, settings=FIVE)
    assert "cannot be resumed" not in text(opened(run="r"))


def has_button(app):
    return any(button.key == "add_replicates" for button in app.button)


def test_a_run_with_enough_replicates_or_one_still_running_has_no_such_button(results):
    make_run(results / "enough", grid=GRID, settings=FIVE)
    assert not has_button(opened(run="enough"))
    make_run(results / "running", grid=GRID, state="running", done=1)
    assert not has_button(opened(run="running"))


def test_while_another_sweep_runs_the_button_is_off_and_says_why(results):
    make_run(results / "r", grid=GRID, started_at="2026-03-01T00:00:00+00:00")
    make_run(results / "running", grid=GRID, state="running", done=1, started_at="2026-03-02T00:00:00+00:00")
    app = opened(run="r")
    assert app.button(key="add_replicates").disabled
    assert "would disturb it" in text(app)


def test_the_example_that_comes_with_the_program_stays_as_it_is(results, monkeypatch):
    run = make_run(results / "example", grid=GRID)
    assert replicate_panel.refusal_of(run, is_busy=False) == ""
    monkeypatch.setattr(replicate_panel, "EXAMPLE", results / "example")
    assert "stays as it is" in replicate_panel.refusal_of(run, is_busy=False)
    assert opened().button(key="add_replicates").disabled


def test_what_is_still_to_come_is_estimated_and_no_more(results):
    one = make_run(results / "one", grid=GRID)
    half = make_run(results / "half", grid=GRID, state="stopped", done=2)
    assert 0 < replicate_panel.added_seconds(one) < replicate_panel.added_seconds(half)
    assert replicate_panel.added_seconds(half) == pytest.approx(replicate_panel.added_seconds(one) * 18 / 16)


def test_a_run_is_named_so_that_a_phone_has_room_for_it(results):
    run = make_run(results / "20260301-190811-ab12", grid=GRID)
    assert run_picker.label(run).endswith(" · finished · 4 points · ab12")
    assert len(run_picker.label(run)) <= 48
    assert run_picker.conditions(run).startswith("run 20260301-190811-ab12 · ")
    shutil.rmtree(results / "20260301-190811-ab12")
    assert run_picker.label(make_run(results / "mine", grid=GRID)).endswith(" · mine")
