"""Runs named, noted and deleted in the page."""

import pytest
from dashboard_samples import make_run
from streamlit.testing.v1 import AppTest

from dashboard import note_store, run_picker, store
from profiling import run_notes
from profiling.run_names import Notes, read_notes
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(16,), num_heads=(4,), d_model=60, device="cpu")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """Two runs, of which `newer` is the newest."""
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    for name, day in (("older", 1), ("newer", 2)):
        make_run(tmp_path / name, grid=GRID, started_at=f"2026-03-0{day}T00:00:00+00:00")
    return tmp_path


def page():
    """The middle of Measure, without what is measured."""
    import streamlit as st

    from dashboard import run_picker, store
    from dashboard.views import compare
    from profiling.run_list import list_runs

    def show():
        runs = list_runs().runs
        choice = store.choose(runs, None)
        st.warning(choice.complaint)
        run_picker.show(runs, choice.run)

    st.navigation([st.Page(show, default=True), st.Page(compare.show, url_path="compare")]).run()


def opened(run=None):
    app = AppTest.from_function(page, default_timeout=20)
    if run is not None:
        app.query_params["run"] = run
    app.run()
    assert not app.exception
    return app


def text(app):
    parts = (*app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.success)
    return "\n".join(part.value for part in parts).replace("\\", "")


def field(fields, start):
    """The one field whose key begins so: what follows tells its run, and which texts it began with."""
    return next(each for each in fields if each.key.startswith(start))


def save(app, *, name=None, note=None):
    if name is not None:
        field(app.text_input, "run_name_").set_value(name)
    if note is not None:
        field(app.text_area, "run_note_").set_value(note)
    app.button(key="save_texts").click().run()
    assert not app.exception


def delete(app, typed):
    field(app.text_input, "run_typed_").set_value(typed)
    app.button(key="delete_run").click().run()
    assert not app.exception


def test_a_name_and_a_note_are_kept_and_shown(results):
    app = opened()
    save(app, name=" before the rewrite ", note="on *battery*,\nlid closed")
    assert read_notes(results / "newer") == Notes("before the rewrite", "on *battery*,\nlid closed")
    assert read_notes(results / "older") == Notes()
    assert app.selectbox(key="run_choice").options[0].startswith("before the rewrite · 2026-03-0")
    assert "Run newer now is called before the rewrite and keeps the note." in text(app)
    assert "on *battery*,  \nlid closed" in text(app)
    app.run()
    assert "now is called" not in text(app), "told once"


def test_an_empty_text_takes_the_name_away_and_leaves_the_note(results):
    run_notes.name_run(results / "newer", "mine")
    run_notes.note_run(results / "newer", "kept")
    app = opened()
    save(app, name="")
    assert read_notes(results / "newer") == Notes(None, "kept")
    assert "Run newer now has no name." in text(app)


@pytest.mark.parametrize(("name", "reason"), [("older", "older is called"), ("taken", "older is called"), ("-x", "-")])
def test_a_name_that_cannot_be_is_refused_with_the_reason_and_stays_to_be_mended(results, name, reason):
    run_notes.name_run(results / "older", "taken")
    app = opened()
    save(app, name=name)
    assert "Not saved: name must be" in text(app)
    assert reason in text(app)
    assert field(app.text_input, "run_name_newer").value == name
    assert read_notes(results / "newer") == Notes()


def test_what_another_tab_wrote_meanwhile_is_not_written_over(results):
    app = opened()
    run_notes.name_run(results / "newer", "theirs")
    save(app, note="ours")
    assert read_notes(results / "newer") == Notes("theirs", "ours")
    assert field(app.text_input, "run_name_newer").value == "theirs"


def test_a_run_is_deleted_once_its_id_is_typed(results):
    app = opened()
    assert f"Removes {len(list((results / 'newer').iterdir()))} files" in text(app)
    delete(app, "older")
    assert "Run newer is not deleted: what was typed is not its id." in text(app)
    assert (results / "newer").is_dir()
    delete(app, "newer")
    assert "Run newer is deleted." in text(app)
    assert [path.name for path in results.iterdir()] == ["older"]
    assert app.selectbox(key="run_choice").value == "older"
    assert "run" not in app.query_params


def test_another_tab_that_shows_a_deleted_run_tells_it_and_shows_the_newest(results):
    app, other = opened(run="older"), opened(run="older")
    before = store.traces("cpu")
    delete(app, "older")
    assert store.traces("cpu") != before, "an idle page would not notice"
    other.run()
    assert not other.exception
    assert "cannot be shown: there is no run older" in text(other)
    assert other.selectbox(key="run_choice").value == "newer"


def test_a_running_run_is_not_deleted_but_may_be_named(results):
    make_run(results / "alive", grid=GRID, state="running", done=0)
    app = opened(run="alive")
    assert "run alive is still running" in text(app)
    assert not any(button.key == "delete_run" for button in app.button)
    save(app, name="tonight")
    assert read_notes(results / "alive").name == "tonight"


def test_the_example_is_neither_named_nor_deleted(results, monkeypatch):
    monkeypatch.setattr("dashboard.run_admin.EXAMPLE", results / "older")
    app = opened(run="older")
    assert "The example comes with the program" in text(app)
    assert not {"save_texts", "delete_run"} & {button.key for button in app.button}


def test_a_run_leads_to_its_comparison(results):
    (link,) = opened(run="older").get("page_link")
    assert link.proto.page == "compare"
    assert link.proto.query_string == "new=older"


def test_what_is_damaged_is_told_and_the_run_is_shown(results):
    (results / "newer" / "notes.json").write_text("{", encoding="utf-8")
    assert "notes.json cannot be read" in text(opened())


def test_a_name_is_read_once_until_it_changes(results, monkeypatch):
    run_notes.name_run(results / "newer", "first")
    read = []
    monkeypatch.setattr(note_store, "read_notes", lambda folder: read.append(folder.name) or read_notes(folder))
    for _ in range(3):
        assert note_store.names_of_runs(["older", "newer", "gone"]) == {"newer": "first"}
    assert read == ["newer"]
    run_notes.name_run(results / "newer", "second")
    assert note_store.names_of_runs(["older", "newer"]) == {"newer": "second"}
    assert read == ["newer", "newer"]


def test_a_long_name_leaves_room_for_what_else_tells_a_run(results):
    told = run_picker.label(make_run(results / "20260301-190811-ab12", grid=GRID), "n" * 80)
    assert told.endswith(" · finished · 1 point · ab12")
    assert len(told) <= run_picker.NAME_LETTERS + 48
