"""What a person takes along of a run, and what the page tells of its limits, its growth and how to measure it again."""

import shlex

import pytest
from dashboard_fakes import FakeChecker, FakeJobs, opened
from dashboard_samples import make_run
from hostile_runs import hostile_run

from dashboard import services
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from profiling.ceilings import with_ceilings
from profiling.cli import main
from profiling.settings import SweepSettings
from profiling.sources import Source
from profiling.workload import Grid

GRID = Grid(batch_size=(1, 2), seq_len=(16, 32, 64, 128), num_heads=(4,), d_model=64, device="cpu")
ENVIRONMENT = {"torch_version": "2.13.0", "device_name": "Test CPU"}
CEILINGS = {"matmul_gflop_per_s": {"float32": 1000.0}, "copy_gb_per_s": 20.0}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    checks = LiveChecks(lambda: FakeChecker())
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", lambda: Layers())
    monkeypatch.setattr(services, "jobs", FakeJobs)
    yield tmp_path
    checks.close()


def words(app):
    parts = (*app.markdown, *app.caption, *app.info, *app.warning)
    return "\n".join(part.value for part in parts).replace("\\", "")


def test_the_limits_are_drawn_and_told_beside_the_laws(results):
    environment = with_ceilings(ENVIRONMENT, CEILINGS, "2026-03-01T19:08:11+00:00")
    make_run(results / "r", grid=GRID, environment=environment)
    app = opened(tab="Limits")
    assert "of what this machine can do at seq_len 128" in words(app)
    assert "How they grow with sequence length" in words(app)
    assert "custom: time ~ S^" in words(app)
    charts = app.get("plotly_chart")
    assert len(charts) == 3, "the roofline, and time and memory along the axis with more than two sizes"
    assert "How they grow with batch size is not told: 2 sizes, and a law needs at least 3" in words(app)
    assert all("custom" in chart.proto.alt for chart in charts)


def test_the_commands_that_go_on_are_ones_that_the_program_takes(results):
    make_run(results / "r", grid=GRID)
    commands = [shlex.split(code.value) for code in opened(tab="Limits").code]
    assert [words[3] for words in commands] == ["crossover", "fits"]
    for _, _, _, name, *options in commands:
        context = main.commands[name].make_context(name, options)
        assert context.params["batch_size"] == "2", "the largest that was measured"
    assert {"--contenders", "custom,official", "--from", "8", "--to", "256"} <= set(commands[0])


def test_without_ceilings_and_without_sizes_the_page_says_what_is_missing(results):
    make_run(results / "r", grid=Grid(batch_size=(2,), seq_len=(16,), num_heads=(4,), d_model=64, device="cpu"))
    app = opened(tab="Limits")
    assert "No limit can be told" in words(app)
    assert "of a run that varies sequence length" in words(app)


def test_a_run_is_taken_along_in_three_forms(results):
    make_run(results / "r", grid=GRID)
    buttons = {button.proto.label for button in opened().get("download_button")}
    assert {"Download CSV", "Download report", "Download summary"} <= buttons


def test_a_point_is_measured_again_by_a_command_and_by_a_script_of_the_source_that_was_measured(results):
    hash_ = Source.of_ours().hash
    changes = {(point, "custom"): {"source_hash": hash_} for point in range(1, 9)}
    make_run(results / "r", grid=GRID, changes=changes, settings=SweepSettings(contenders=("custom", "official")))
    app = opened(tab="Samples")
    assert any("--contenders custom,official" in code.value for code in app.code)
    assert any("class MultiHeadAttention" in code.value for code in app.code)
    assert "Download script" in {button.proto.label for button in app.get("download_button")}
    app.selectbox(key="repeat").set_value("official").run()
    assert "torch's own layer" in words(app)
    assert "Download script" in {button.proto.label for button in app.get("download_button")}


def test_a_source_that_is_nowhere_any_more_is_told(results):
    changes = {(point, "custom"): {"source_hash": "0123456789ab"} for point in range(1, 9)}
    make_run(results / "r", grid=GRID, changes=changes, settings=SweepSettings(contenders=("custom", "official")))
    app = opened(tab="Samples")
    assert "There is no script for it" in words(app)
    assert not app.exception


@pytest.mark.parametrize("tab", ["Limits", "Samples"])
def test_a_hostile_run_breaks_neither(results, tab):
    hostile_run(results / "r")
    app = opened(tab=tab)
    assert not app.exception
