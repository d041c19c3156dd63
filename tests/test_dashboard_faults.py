"""The page when a sweep cannot be written, ended without a word, or lost its folder: sentences, and no traceback."""

import json
import shutil

import pytest
from dashboard_fakes import FakeChecker, opened
from dashboard_samples import make_run

from dashboard import services
from dashboard.jobs import Jobs
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(16, 32), num_heads=(4, 8), d_model=64, device="cpu")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "results"


@pytest.fixture(autouse=True)
def jobs(monkeypatch):
    """The page's own sweeps, started for real; its live check is none."""
    real, checks = Jobs(), LiveChecks(FakeChecker)
    monkeypatch.setattr(services, "jobs", lambda: real)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", lambda: Layers(specs=(), complaints=()))
    yield real
    checks.close()


def text(app):
    assert not app.exception, app.exception
    parts = (part.value for part in (*app.markdown, *app.caption, *app.info, *app.error))
    return "\n".join(parts).replace("\\", "")  # what keeps a text from being markdown


def edit_run(folder, **changes):
    values = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps(values | changes), encoding="utf-8")


def test_a_sweep_that_cannot_be_written_says_why_in_the_page(results, jobs):
    results.write_text("mine", encoding="utf-8")
    app = opened()
    app.button(key="run_sweep").click().run()
    assert jobs.last.wait(60)
    assert "cannot be a run's folder" in text(app.run())
    assert results.read_text(encoding="utf-8") == "mine"


def test_a_finished_run_whose_folder_is_taken_away_leaves_a_page_that_goes_on(results):
    make_run(results / "r", grid=GRID)
    app = opened()
    assert "Nothing measured yet" not in text(app)
    shutil.rmtree(results / "r")
    assert "Nothing measured yet" in text(app.run())
    (results / "r").write_text("mine", encoding="utf-8")
    assert "Nothing measured yet" in text(app.run())
    shutil.rmtree(results)
    assert "Nothing measured yet" in text(app.run())


def test_a_sweep_that_could_not_say_its_end_is_stopped_and_can_be_resumed(results):
    make_run(results / "r", grid=GRID, state="running", done=2)
    edit_run(results / "r", process_started=1.0)
    app = opened()
    assert "**Stopped** after 2 of 4 points: its process ended without a word" in text(app)
    assert not app.button(key="resume").disabled


def test_a_sweep_of_another_machine_is_shown_as_it_goes_and_is_not_ours_to_stop(results):
    make_run(results / "r", grid=GRID, state="running", done=2)
    edit_run(results / "r", host="another", pid=2**22 + 1)
    app = opened()
    assert "Stopped" not in text(app)
    app.button(key="stop").click().run()
    assert "Not stopped: it is measured on another machine; stop it there" in text(app)
