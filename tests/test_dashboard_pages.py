"""The page as Streamlit runs it, without a browser and without measuring."""

import math

import pytest
from dashboard_fakes import FakeChecker, FakeJobs, full_report, opened, report
from dashboard_samples import make_run, without_numbers

from dashboard import services, store
from dashboard.jobs import JobError
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from profiling.device_lock import DeviceLock
from profiling.runs import Progress
from profiling.settings import SweepSettings
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(16, 32), num_heads=(4, 8), d_model=64, device="cpu")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def checker():
    return FakeChecker()


@pytest.fixture(autouse=True)
def live_checks(checker, monkeypatch):
    checks = LiveChecks(lambda: checker)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    yield checks
    checks.close()


@pytest.fixture(autouse=True)
def layers(monkeypatch):
    """Registers layers, none unless told: the arguments of this process are those of the tests."""

    def register(*specs, complaints=()):
        registered = Layers(specs=specs, complaints=tuple(complaints))
        monkeypatch.setattr(services, "layers", lambda: registered)

    register()
    return register


@pytest.fixture(autouse=True)
def jobs(monkeypatch):
    fake = FakeJobs()
    monkeypatch.setattr(services, "jobs", lambda: fake)
    return fake


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    """A layer of one's own in the working folder; nothing in it is run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_attention.py").write_text("")
    return "my_attention.py:MyAttention"


def text(app):
    parts = [part.value for part in (*app.markdown, *app.caption, *app.info, *app.warning, *app.error)]
    return "\n".join([*parts, *(part.proto.text for part in app.get("progress"))])


def test_without_any_run_the_page_says_what_to_do():
    app = opened()
    assert "Nothing measured yet" in text(app)
    assert not app.button(key="run_sweep").disabled


def test_the_newest_run_is_drawn_at_first(results):
    make_run(results / "older", grid=GRID, started_at="2026-03-01T00:00:00+00:00")
    make_run(results / "newer", grid=GRID, started_at="2026-03-02T00:00:00+00:00")
    app = opened()
    assert app.selectbox(key="run_choice").value == "newer"
    assert len(app.get("plotly_chart")) == 1
    assert {metric.label for metric in app.metric} == {"speed-up", "memory", "max error"}


@pytest.mark.parametrize("tab", ["Latency", "Memory", "Max error", "Speed-up map"])
def test_a_run_without_rows_yet_has_its_charts_in_place(results, tab):
    make_run(results / "r", grid=GRID, state="running", done=0)
    app = opened(tab=tab)
    assert "No rows yet" in text(app)
    assert len(app.get("plotly_chart")) == 1


@pytest.mark.parametrize("tab", ["Latency", "Memory", "Max error", "Speed-up map"])
def test_every_chart_tab_draws_one_chart_with_a_takeaway(results, tab):
    make_run(results / "r", grid=GRID)
    charts = opened(tab=tab).get("plotly_chart")
    assert len(charts) == 1
    assert "custom" in charts[0].proto.alt


def test_the_table_holds_every_row(results):
    make_run(results / "r", grid=GRID)
    assert len(opened(tab="Table").dataframe[0].value) == 16


def test_picking_a_run_puts_it_into_the_url(results):
    make_run(results / "older", grid=GRID, started_at="2026-03-01T00:00:00+00:00")
    make_run(results / "newer", grid=GRID, started_at="2026-03-02T00:00:00+00:00")
    app = opened()
    app.selectbox(key="run_choice").set_value("older").run()
    assert app.query_params["run"] in ("older", ["older"])


def test_a_run_in_the_url_is_shown_though_it_is_not_the_newest(results):
    make_run(results / "older", grid=GRID, started_at="2026-03-01T00:00:00+00:00")
    make_run(results / "newer", grid=GRID, started_at="2026-03-02T00:00:00+00:00")
    assert opened(run="older").selectbox(key="run_choice").value == "older"


@pytest.mark.parametrize("wanted", ["../../etc", "%2e%2e%2fetc", "r\0", "r\n", "\uff4d", "gone", "x" * 5000])
def test_a_run_in_the_url_that_is_none_is_told_and_the_newest_shown(results, wanted):
    make_run(results / "r", grid=GRID)
    app = opened(run=wanted)
    assert "cannot be shown" in text(app)
    assert app.selectbox(key="run_choice").value == "r"


def test_values_in_the_url_set_the_controls(results):
    app = opened(batch_size="3", seq_len="7,9", num_heads="2", d_model="14", budget="0.05", dtype="float64")
    assert "**2 points**" in text(app)
    assert app.text_input(key="seq_len").value == "7,9"


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"seq_len": "12,x"}, "seq\\_len must be whole numbers"),
        ({"batch_size": "-1"}, "must be a whole number of at least 1"),
    ],
)
def test_a_control_that_breaks_a_rule_is_told_and_the_run_button_is_off(params, sentence):
    app = opened(**params)
    assert sentence in app.error[0].value
    assert app.button(key="run_sweep").disabled


def test_points_that_cannot_be_are_named_before_the_start():
    assert "d\\_model 512 is not divisible by num\\_heads 3" in text(opened(num_heads="3,4"))


def test_a_preset_fills_in_the_controls():
    app = opened()
    app.get("button_group")[0].set_value("standard").run()
    assert app.text_input(key="seq_len").value == "128, 256, 512"
    assert app.number_input(key="replicates").value == 5


def test_the_run_button_starts_what_the_controls_say(jobs):
    app = opened(batch_size="3", seq_len="7", num_heads="2", d_model="14")
    app.button(key="run_sweep").click().run()
    grid, settings, device = jobs.started[0]
    assert (grid.batch_size, grid.seq_len, grid.num_heads, grid.d_model) == ((3,), (7,), (2,), 14)
    assert settings.contenders == ("custom", "custom-fused", "official", "official-fused")
    assert device == "cpu"


def test_what_the_estimate_refuses_is_started_only_where_it_is_said_to_be_meant(jobs):
    app = opened(batch_size="64", seq_len="1000000", num_heads="8")
    told = "64, seq\\_len 1000000, heads 8, d\\_model 512 needs about "
    assert told in next(error.value for error in app.error)
    assert app.button(key="run_sweep").disabled
    app.checkbox(key="anyway").check().run()
    assert told in text(app)
    app.button(key="run_sweep").click().run()
    assert jobs.started[0][1].anyway


def test_a_link_cannot_say_that_what_the_estimate_refuses_is_meant():
    app = opened(batch_size="64", seq_len="1000000", num_heads="8", anyway="true")
    assert app.button(key="run_sweep").disabled


def test_what_fits_is_started_without_a_word(jobs):
    app = opened(batch_size="3", seq_len="7", num_heads="2", d_model="14")
    assert not app.checkbox
    app.button(key="run_sweep").click().run()
    assert not jobs.started[0][1].anyway


def test_a_refused_start_is_told(jobs):
    jobs.refusal = JobError("Not started: cpu is busy since noon")
    app = opened()
    app.button(key="run_sweep").click().run()
    assert "busy since noon" in app.error[0].value


def test_a_refusal_is_forgotten_when_what_was_measuring_has_ended(jobs):
    jobs.refusal = JobError("Not started: cpu is busy since noon")
    lock = DeviceLock("cpu")
    lock.acquire("sweep")
    app = opened()
    app.button(key="run_sweep").click().run()
    assert "busy since noon" in app.run().error[0].value
    lock.release()
    assert not app.run().error


def test_what_a_sweep_elsewhere_changes_is_seen(results):
    before = store.traces("cpu")
    assert store.traces("cpu") == before
    make_run(results / "theirs", grid=GRID, state="running", done=0)
    begun = store.traces("cpu")
    lock = DeviceLock("cpu")
    lock.acquire("sweep")
    held = store.traces("cpu")
    lock.release()
    assert len({before, begun, held}) == 3
    assert store.traces("cpu") == begun


def test_registered_layers_are_contenders_and_are_measured_and_checked(layers, own_file, jobs, checker):
    layers(own_file)
    checker.answers[own_file] = full_report()
    app = settled(opened())
    assert list(app.pills(key="contenders").value)[-1] == own_file
    shown = text(app)
    assert "**MyAttention**, from `my_attention.py`" in shown
    assert "gradients ✘ (1 of 2) · 14 of 14 planted faults caught" in shown
    assert "use head\\_dim" in shown
    app.button(key="run_sweep").click().run()
    _, settings, _ = jobs.started[0]
    assert own_file in settings.contenders


def test_what_ones_own_layers_are_compared_with_can_be_chosen(layers, own_file, jobs):
    layers(own_file)
    app = opened(reference="official-fused", contenders=["custom", own_file])
    assert [group.key for group in app.button_group if group.key == "reference"]
    app.button(key="run_sweep").click().run()
    assert jobs.started[0][1].contenders == ("custom", own_file, "official", "official-fused")


def test_without_layers_of_ones_own_nothing_asks_what_they_are_compared_with():
    assert not [group for group in opened().button_group if group.key == "reference"]


def test_a_link_that_names_an_unregistered_layer_measures_the_others_and_says_so(jobs):
    app = opened(contenders=["custom", "sneaky.py:Layer"])
    assert "The link names `sneaky.py:Layer`, which this server has not registered" in text(app)
    app.button(key="run_sweep").click().run()
    assert jobs.started[0][1].contenders == ("custom", "official")


def test_a_bad_argument_of_the_program_is_told_and_the_page_works(layers):
    layers(complaints=["--layer: there is no file gone.py in /home"])
    app = opened()
    assert "there is no file gone\\.py" in app.warning[0].value
    assert not app.button(key="run_sweep").disabled


def test_a_layer_whose_file_is_gone_since_the_start_is_told(layers):
    layers("gone.py:Layer")
    app = opened()
    assert "there is no file gone\\.py" in app.error[0].value
    assert app.button(key="run_sweep").disabled


def test_a_run_of_ones_own_layer_is_drawn_though_its_file_is_gone(results, own_file, tmp_path):
    make_run(results / "r", grid=GRID, settings=SweepSettings(contenders=("custom", own_file)))
    (tmp_path / "my_attention.py").unlink()
    for tab in ("Latency", "Speed-up map"):
        chart = opened(tab=tab).get("plotly_chart")[0]
        assert "MyAttention" in chart.proto.spec


def test_a_running_sweep_is_followed_and_a_second_start_is_off(results, jobs):
    progress = Progress(done=1, total=4, label="batch 2, seq_len 32, heads 4, d_model 64", seconds_left=21.0)
    make_run(results / "r", grid=GRID, state="running", done=1, progress=progress)
    app = opened()
    shown = text(app)
    assert "**Point 2 of 4**" in shown
    assert "≈ 21 s left" in shown
    assert "updated" in shown
    assert app.button(key="run_sweep").disabled
    app.button(key="stop").click().run()
    assert jobs.stopped == ["r"]


def test_a_sweep_elsewhere_is_told_beside_another_run(results):
    make_run(results / "old", grid=GRID, started_at="2026-03-01T00:00:00+00:00")
    make_run(results / "new", grid=GRID, state="running", done=3, started_at="2026-03-02T00:00:00+00:00")
    app = opened(run="old")
    assert "Busy since" in text(app)
    assert "3/4: run new" in text(app)
    app.button(key="follow").click().run()
    assert app.selectbox(key="run_choice").value == "new"


def test_while_a_sweep_runs_the_check_shows_its_rows_and_asks_for_none(results, checker):
    make_run(results / "r", grid=GRID, state="running", done=2)
    app = opened()
    assert "its rows are checked as they come" in text(app)
    assert "0.00e+00" in text(app)
    assert checker.asked == []


def test_a_stopped_run_can_be_resumed(results, jobs):
    make_run(results / "r", grid=GRID, state="stopped", state_reason="asked to", done=2)
    app = opened()
    assert "**Stopped** after 2 of 4 points" in text(app)
    app.button(key="resume").click().run()
    assert jobs.resumed == ["r"]


def settled(app):
    for _ in range(20):
        if "Checking" not in text(app) and "Loading torch" not in text(app):
            return app
        app.run()
    raise AssertionError(text(app))


def test_the_check_shows_the_error_at_the_point_and_over_all_shapes(checker):
    app = settled(opened())
    shown = text(app)
    assert "max error **0.00e+00**" in shown
    assert "Largest error over 2 shapes 6.00e-08, below 1e-05" in shown
    point, contender = checker.asked[0]
    assert (point.batch_size, point.seq_len, point.num_heads, contender) == (1, 64, 4, "custom")
    app.button(key="check_again").click().run()
    settled(app)
    assert len(checker.asked) == 4


def test_a_failing_check_says_why(checker):
    checker.answers["custom"] = report(verdict="fail", reason="the scale is wrong")
    shown = text(settled(opened()))
    assert "✘ fail" in shown
    assert "the scale is wrong" in shown


def test_an_output_that_is_not_finite_is_told_as_such(checker):
    bad = {**report()["comparisons"][0], "max_abs_error": None, "num_non_finite": 3}
    checker.answers["custom"] = report(
        verdict="fail", max_abs_error=None, error_ratio=None, plain_holds=False, num_non_finite=3, comparisons=[bad]
    )
    assert "not finite (3 elements)" in text(settled(opened()))


def test_a_layer_that_raises_or_cannot_be_compared_is_told(checker):
    checker.answers["custom"] = report(
        verdict="error", reason="it raised", comparisons=[], max_abs_error=None, error_ratio=None, plain_holds=None
    )
    shown = text(settled(opened()))
    assert "! error" in shown
    assert "it raised" in shown


def test_failed_points_are_counted_and_a_failed_check_stands_in_the_headline(results):
    changes = {
        (1, "custom"): without_numbers("oom", "out of memory"),
        (2, "custom"): {"max_abs_error": math.inf, "error_ratio": math.inf, "check_verdict": "fail"},
    }
    make_run(results / "r", grid=GRID, changes=changes)
    shown = text(opened())
    assert "check not passed at 1 of 3" in shown
    assert "**oom**, 1 row: out of memory" in shown


def test_a_run_whose_table_cannot_be_read_is_told_and_the_page_stands(results):
    folder = results / "broken"
    make_run(folder, grid=GRID)
    (folder / "measurements.csv").write_text("a;b\n1;2\n")
    app = opened(run="broken")
    assert "The run cannot be shown" in text(app)
    assert any(button.label == "Run sweep" for button in app.button)


def test_a_long_list_in_the_link_is_taken_whole():
    lengths = ",".join(str(length) for length in range(1000, 1100))
    app = opened(batch_size="1", num_heads="4", seq_len=lengths)
    assert "**100 points**" in text(app)


def test_a_point_too_large_for_a_live_check_is_told_and_not_checked(checker):
    app = opened(seq_len="100000", d_model="512", num_heads="8", batch_size="4")
    assert "takes too long to be live" in text(app)


def test_the_live_check_is_told_as_what_it_is_without_gradients():
    app = opened(seq_len="16", d_model="64", num_heads="4", batch_size="2", mode="training")
    assert "training, and at fixed probe shapes" not in text(app)
