"""The page's comparison of two runs, and its chart."""

import dataclasses
import json
from pathlib import Path

import pandas as pd
import psutil
import pytest
from compared_runs import planted_run
from made_up_runs import lost_row, make_row, write_run
from streamlit.testing.v1 import AppTest

from dashboard import address, compare_choice, compare_progress, compare_store, compare_table
from dashboard.baseline_file import Baseline
from dashboard.compare_store import Comparisons, Question, given_of
from dashboard.compare_wish import Wish
from profiling.charts.compare_chart import NOT_MEASURED, REGRESSION, compare_chart
from profiling.charts.compare_text import compare_alt
from profiling.charts.compared_rows import MOST_SHAPES, choose_rows
from profiling.charts.palette import UNRELIABLE
from profiling.compare.comparing import compare_runs
from profiling.compare.sides import CompareError
from profiling.compare.text import worst_first
from profiling.run_list import list_runs
from profiling.run_notes import name_run
from profiling.runs import MEASUREMENTS_FILE, RUN_FILE, Progress, read_run
from profiling.safe_files import write_aside
from profiling.settings import SweepSettings
from profiling.table import write_report
from profiling.workload import Grid

BASE, NEW = "20260301-190811-aa01", "20260302-190811-aa02"


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch, unsynced):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    monkeypatch.setattr(compare_store, "WAIT_S", 20)  # a busy machine is no big run
    compare_store.comparisons.clear()
    return tmp_path


@pytest.fixture
def slower(results):
    """In NEW custom takes 1.3 times as long at the first point, and is lost at the second."""
    planted_run(results / BASE, started_at="2026-03-01T19:08:11+00:00")
    return planted_run(
        results / NEW, slowdown=1.3, seed=9, lost={("custom", 2): "oom"}, started_at="2026-03-02T19:08:11+00:00"
    )


def page():
    import streamlit as st

    from dashboard.views import compare, measure

    st.navigation(
        [st.Page(compare.show, default=True, url_path="compare"), st.Page(measure.show, url_path="measure")]
    ).run()


def opened(**params):
    app = AppTest.from_function(page, default_timeout=30)
    app.query_params.update(params)
    app.run()
    assert not app.exception
    return app


def text(app):
    parts = (*app.title, *app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.success)
    return "\n".join([*(part.value for part in parts), *(part.value for part in app.code)]).replace("\\", "")


def sides(app):
    return app.selectbox(key="base_choice").value, app.selectbox(key="new_choice").value


def linked(app):
    found = (app.query_params[name] for name in ("base", "new"))
    return tuple(each[0] if isinstance(each, list) else each for each in found)


# -- the view ---


def test_without_runs_the_view_says_what_to_do():
    assert "There are no runs yet" in text(opened())


def test_the_two_newest_are_compared_and_told_in_words_numbers_a_chart_and_a_table(slower):
    app = opened()
    assert sides(app) == (BASE, NEW)
    assert linked(app) == (BASE, NEW)
    told = text(app)
    assert "REGRESSION in 2 of 4 rows" in told
    assert "Coverage: custom: 1 of 2 shapes compared; 1: oom in NEW." in told
    assert "Mean over 1 of 2 shapes. 1 slower, **2 regressions**." in told
    assert app.metric[0].value.startswith(("+29.", "+30."))
    assert f"python -m profiling compare {BASE} {NEW} --fail-above 5%" in told
    assert "2 regressions" in app.get("plotly_chart")[0].proto.alt
    table = app.dataframe[0].value
    assert table["contender"].tolist() == ["custom", "custom", "official", "official"]
    assert table["verdict"].tolist()[0] == "lost: oom in NEW"


def test_runs_of_the_link_are_compared_by_id_or_name_and_can_be_swapped(slower, results):
    planted_run(results / "third", started_at="2026-03-03T19:08:11+00:00")
    name_run(results / BASE, "before the rewrite")
    app = opened(base="before the rewrite", new=NEW, fail_above="50")
    assert sides(app) == (BASE, NEW)
    assert app.selectbox(key="base_choice").options[2].startswith("before the rewrite · ")
    assert "lost: oom in NEW" in app.dataframe[0].value["verdict"].tolist()
    assert "REGRESSION in 1 of 4 rows" in text(app), "30 % is below the threshold"
    app.button(key="swap_sides").click().run()
    assert sides(app) == (NEW, BASE)
    assert linked(app) == (NEW, BASE)
    app.selectbox(key="new_choice").set_value("third").run()
    assert sides(app) == (NEW, "third")
    assert linked(app) == (NEW, "third")


def test_a_run_of_the_link_that_is_gone_is_told_and_another_compared(slower):
    app = opened(base="gone")
    assert "The link names a run that cannot be compared: there is no run gone" in text(app)
    assert sides(app) == linked(app) == (BASE, NEW)


def test_runs_that_were_not_measured_alike_are_refused_until_it_is_meant(results):
    planted_run(results / BASE, started_at="2026-03-01T19:08:11+00:00")
    planted_run(
        results / NEW, environment={"torch_version": "2.14.0"}, threads=3, started_at="2026-03-02T19:08:11+00:00"
    )
    app = opened()
    assert "Not compared: BASE and NEW were not measured alike" in app.warning[0].value.replace("\\", "")
    assert "**torch_version: 2.13.0 in BASE, 2.14.0 in NEW**" in text(app)
    assert not app.get("plotly_chart")
    assert "--anyway" not in text(app)
    app.checkbox[0].check().run()
    assert not app.exception
    assert len(app.get("plotly_chart")) == 1
    assert "Note: made in spite of a difference in torch_version" in text(app)
    assert "--fail-above 5% --anyway" in text(app)
    app.button(key="swap_sides").click().run()
    assert "Not compared" in text(app), "the consent was to another comparison"


def test_a_baseline_file_stands_in_place_of_base_as_long_as_it_is_there(slower, results, tmp_path_factory):
    first = planted_run(tmp_path_factory.mktemp("elsewhere") / "first")
    data = write_report(first, first.parent / "baseline.csv").read_bytes()
    app = opened(base=NEW, new=NEW)
    assert "Note: BASE and NEW are the same run." in text(app)
    app.file_uploader(key="baseline_file").set_value(("kept *there*.csv", data, "text/csv")).run()
    assert not app.exception
    told = text(app)
    assert "BASE is the file kept *there*.csv, until it is taken away there." in told
    assert "REGRESSION in 2 of 4 rows" in told
    assert f"python -m profiling compare 'kept *there*.csv' {NEW} --fail-above 5%" in told
    assert "--out baseline.csv" not in told
    app.file_uploader(key="baseline_file").set_value(("other.csv", b"a,b\n1,2\n", "text/csv")).run()
    told = text(app)
    assert "Not compared: other.csv is not a table as this program writes it" in told
    assert "mha-bench-baselines" not in told
    app.file_uploader(key="baseline_file").set_value(None).run()
    assert "Note: BASE and NEW are the same run." in text(app)


@pytest.fixture
def twice(results):
    """Two runs a side, which differ as a whole by 2 %, the newest first."""
    slow = {"before": 1.0, "before-2": 1.02, "now": 1.07, "now-2": 1.05}
    for number, (name, slowdown) in enumerate(slow.items(), start=1):
        planted_run(results / name, slowdown=slowdown, seed=number, started_at=f"2026-03-0{number}T19:08:11+00:00")
    return results


def further(app):
    return tuple(app.multiselect(key=f"{side}_also_choice").value for side in ("base", "new"))


def test_a_side_of_several_runs_is_compared_and_stands_in_the_address_and_in_the_command(twice):
    app = opened(base="before", new="now", base_also=["before-2"], new_also=["now-2"])
    assert (sides(app), further(app)) == (("before", "now"), (["before-2"], ["now-2"]))
    asked = compare_runs(
        *(twice / name for name in ("before", "now")), base_also=[twice / "before-2"], new_also=[twice / "now-2"]
    )
    told = text(app)
    assert asked.run_to_run.sentence((2, 2)) in told
    changes = compare_table.worst_first(asked.rows)["change_percent"].tolist()
    assert app.dataframe[0].value["time, %"].tolist()[:2] == changes[:2]
    also = "--base-also {} --new-also now-2 --fail-above 5%"
    assert f"compare before now {also.format('before-2')}" in told
    assert "export before-2 --out baseline-2.csv" in told
    assert f"compare baseline.csv now {also.format('baseline-2.csv')}" in told
    app.button(key="swap_sides").click().run()
    assert (sides(app), further(app)) == (("now", "before"), (["now-2"], ["before-2"]))
    app.multiselect(key="base_also_choice").set_value([]).run()
    assert not app.exception
    assert further(app) == ([], ["before-2"])
    assert linked(app) == ("now", "before")
    assert "base_also" not in app.query_params
    assert app.query_params["new_also"] in ("before-2", ["before-2"])


@pytest.mark.parametrize(
    ("link", "why"),
    [
        (
            {"base_also": ["now"]},
            "BASE and NEW must share no run where one of them is several, not now twice",
        ),
        ({"new_also": ["now"]}, "NEW must be different runs, not now twice"),
    ],
)
def test_the_page_refuses_the_runs_that_the_command_refuses(twice, link, why):
    app = opened(base="before", new="now", **link)
    assert f"Not compared: {why}" in app.error[0].value.replace("\\", "")
    with pytest.raises(CompareError, match=why):
        compare_runs("before", "now", **link, results=twice)


def test_what_a_link_names_beside_a_side_is_found_counted_once_or_told(twice):
    runs, complaints = list_runs().runs, []

    def found(*wanted):
        return [run.run_id for run in compare_choice.find_further(runs, "base", wanted, complaints)]

    name_run(twice / "before-2", "again")
    assert found("now", "again", "before-2", "now") == ["now", "before-2"]
    assert complaints == []
    assert found("gone", "../..", "now-2") == ["now-2"]
    assert [each.split(":")[0] for each in complaints] == ["The link names a run that cannot be compared"] * 2
    many = [dataclasses.replace(runs[0], run_id=f"r{number}") for number in range(compare_store.MOST_FURTHER + 1)]
    for run in many:
        (twice / run.run_id).symlink_to(twice / "now")
    del complaints[:]
    kept = compare_choice.find_further(many, "base", [run.run_id for run in many], complaints)
    assert kept == tuple(many[:-1])
    assert complaints == [
        "The link names 5 further runs of BASE, of which the page compares the first 4: the command line takes all"
    ]


def test_a_file_in_place_of_base_stands_before_its_further_runs(twice):
    runs = {run.run_id: run for run in list_runs().runs}
    wish = Wish(
        base=runs["before"],
        new=runs["now"],
        base_also=(runs["before-2"],),
        names={"before-2": "again"},
        fail_above=0.05,
        baseline=Baseline(write_report(twice / "before", twice / "kept.csv"), "kept.csv"),
    )
    assert wish.words == (("kept.csv", "before-2"), ("now",))
    assert [title for title, _ in wish.runs] == ["again of BASE", "NEW"]
    found = Comparisons().ask(wish.question(anyway=False)).future.result(20)
    assert found.base.label == "kept.csv, again"


def test_one_run_alone_is_compared_with_itself_and_told_so(results):
    planted_run(results / BASE)
    assert "Note: BASE and NEW are the same run." in text(opened())


def test_runs_with_nothing_in_common_are_told_by_their_names(results):
    planted_run(
        results / BASE,
        cells={(name, point): {"seq_len": 11 + point} for name in ("custom", "official") for point in (1, 2)},
    )
    planted_run(results / NEW)
    app = opened(base=BASE, new=NEW)
    assert f"nothing to compare: {BASE} and {NEW} have no workload and contender in common" in text(app)


def test_a_run_without_rows_is_told_by_its_name(results):
    planted_run(results / BASE)
    planted_run(results / NEW)
    (results / NEW / MEASUREMENTS_FILE).unlink()
    told = text(opened(base=BASE, new=NEW))
    assert f"Not compared: {NEW} holds no row that was measured." in told
    assert str(results) not in told


def test_a_comparison_that_takes_long_is_told_to_be_made(slower, monkeypatch):
    monkeypatch.setattr(compare_store, "WAIT_S", 0)
    turn = compare_store.comparisons()._turn
    with turn:
        app = opened()
        assert "The runs are being read and compared" in text(app)
    question = compare_store.comparisons()._kept[-1]
    assert question.wait(20)
    app.run()
    assert "REGRESSION in 2 of 4 rows" in text(app)


def test_a_threshold_in_the_link_that_cannot_be_is_told():
    assert address.complaints({"fail_above": ["inf"], "base": ["x"]}) == {
        "fail_above": "fail_above must be a number of per cent from 0 to 1,000, not 'inf'"
    }
    assert address.complaints({"fail_above": ["7.5"]}) == {}


def links_page():
    import os
    from pathlib import Path

    import streamlit as st

    from dashboard import compare_panel
    from profiling.compare.comparing import compare_runs

    def show():
        base, new = sorted(Path(os.environ["MHA_BENCH_RESULTS"]).iterdir())
        found = compare_runs(base, new)
        for numbers in ([2, 2], [2, 1], None):
            compare_panel.show_links(found, {"selection": {"points": [{"customdata": numbers}]}})
        compare_panel.show_links(found, None)

    st.navigation([st.Page(show, default=True)]).run()


def test_a_click_on_a_mark_leads_to_the_samples_of_its_point_on_either_side(slower):
    app = AppTest.from_function(links_page, default_timeout=30).run()
    assert not app.exception
    assert [part.value for part in app.markdown] == ["**b 3 s 7 h 2 d 10**"]
    links = app.get("page_link")
    assert [link.proto.query_string for link in links] == [
        f"run={run_id}&tab=Samples&sample_seq_len=7" for run_id in (BASE, NEW)
    ]
    assert links[1].proto.label.endswith(" in NEW")


def links_of_several_page():
    import os
    from pathlib import Path

    import streamlit as st

    from dashboard import compare_panel
    from profiling.compare.comparing import compare_runs

    def show():
        results = Path(os.environ["MHA_BENCH_RESULTS"])
        found = compare_runs(results / "before", results / "now", new_also=[results / "other way"])
        compare_panel.show_links(found, {"selection": {"points": [{"customdata": [2, 2]}]}})

    st.navigation([st.Page(show, default=True)]).run()


def test_a_click_leads_to_the_same_shape_in_each_of_several_runs(twice):
    lengths = {(name, point): {"seq_len": (7, 5)[point - 1]} for name in ("custom", "official") for point in (1, 2)}
    grid = Grid(batch_size=(3,), seq_len=(7, 5), num_heads=(2,), d_model=10, device="cpu")
    planted_run(twice / "other way", cells=lengths, grid=grid)
    app = AppTest.from_function(links_of_several_page, default_timeout=30).run()
    assert not app.exception
    assert [part.value for part in app.markdown] == ["**b 3 s 7 h 2 d 10**"]
    assert [link.proto.query_string for link in app.get("page_link")] == [
        f"run={run_id}&tab=Samples&sample_seq_len=7" for run_id in ("before", "now", "other+way")
    ]


# -- which runs, and when they are read ---


def test_by_default_the_newest_run_is_compared_with_the_one_before_it_on_its_device(results):
    for number, device in enumerate(["A", "B", "A", "C"], start=1):
        planted_run(
            results / f"r{number}", started_at=f"2026-03-0{number}T00:00:00+00:00", environment={"device_name": device}
        )
    runs = list_runs().runs

    def chosen(base=None, new=None):
        first, second, complaints = compare_choice.choose(runs, base, new)
        assert complaints == []
        return first.run_id, second.run_id

    assert chosen() == ("r1", "r3"), "the newest that has a partner"
    assert chosen(new="r1") == ("r3", "r1"), "a later one where there is none before"
    assert chosen(base="r1") == ("r1", "r3")
    assert chosen(base="r2") == ("r2", "r4"), "of another device where there is none"
    assert chosen("r2", "r2") == ("r2", "r2")


@pytest.mark.parametrize("wanted", ["gone", "../..", "x" * 300, "r\0", "outside"])
def test_a_link_never_leads_out_of_the_results(slower, results, wanted):
    (results / "outside").symlink_to(results.parent)
    base, new, complaints = compare_choice.choose(list_runs().runs, wanted, None)
    assert (base.run_id, new.run_id) == (BASE, NEW)
    assert len(complaints) == 1


def test_a_comparison_is_made_once_until_a_file_changes(slower, results, monkeypatch):
    read = []
    real = compare_store.read_side
    monkeypatch.setattr(compare_store, "read_side", lambda folder: read.append(folder.name) or real(folder))
    made = Comparisons()

    def ask(**changes):
        base, new = (given_of(read_run(results / name), None) for name in (BASE, NEW))
        return made.ask(Question(**{"base": base, "new": new, "fail_above": 0.05, "anyway": False, **changes}))

    assert len(ask().future.result(20).regressions) == 2
    assert ask() is ask()
    assert len(ask(fail_above=0.5).future.result(20).regressions) == 1
    assert read == [BASE, NEW]
    rows = (results / NEW / MEASUREMENTS_FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    (results / NEW / MEASUREMENTS_FILE).write_text("".join(rows[:-1]), encoding="utf-8")
    ask().future.result(20)
    assert read == [BASE, NEW, NEW]


@pytest.fixture
def growing(results):
    """A run that is being measured by this process, of which a row is still to come; and how that row comes."""
    planted_run(results / BASE, started_at="2026-03-01T19:08:11+00:00")
    me = psutil.Process()
    planted_run(
        results / NEW,
        state="running",
        pid=me.pid,
        process_started=me.create_time(),
        progress=Progress(done=5, total=12, replicate=3),
        started_at="2026-03-02T19:08:11+00:00",
    )
    file = results / NEW / MEASUREMENTS_FILE
    rows = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(rows[:-1]), encoding="utf-8")
    return lambda: file.write_text("".join(rows), encoding="utf-8")


def test_a_run_that_is_being_measured_is_compared_as_far_as_it_is_and_that_is_told(growing):
    app = opened()
    told = text(app)
    assert "NEW is still being measured: 5 of 12 points, 5 replicates together." in told
    assert "Coverage: NEW is running: 5 of 12 points measured, 5 replicates together" in told
    assert "Run to run: unknown, with one run a side" in told
    assert "add that run to its side (*Further runs*)." in told


def test_where_a_run_has_gone_on_since_it_was_compared_both_counts_are_told(growing, results):
    app = opened()
    assert "5 replicates together." in text(app)
    run = read_run(results / NEW)
    for state, told in (
        (
            "running",
            "NEW is still being measured: 10 of 12 points, 5 replicates together; all else here is of its first 5.",
        ),
        ("stopped", "NEW is stopped by now; all else here is of its first 5."),
    ):
        later = dataclasses.replace(run, progress=Progress(done=10, total=12, replicate=5), state=state)
        write_aside(results / NEW / RUN_FILE, json.dumps(later.to_dict()))
        found = compare_store.comparisons()._kept[-1].future.result(20)
        (shown,) = compare_progress.compared_points(found).values()
        assert f"{compare_progress.sentence('NEW', read_run(results / NEW), shown)}." == told
        assert "5 of 12 points measured" in " ".join(found.coverage)
    assert compare_progress.sentence("NEW", later, None) is None, "it was over when it was compared"


def test_of_a_run_that_grows_a_comparison_is_made_anew_from_time_to_time(growing, results, monkeypatch):
    made = Comparisons()

    def ask(**changes):
        base, new = (given_of(read_run(results / name), None) for name in (BASE, NEW))
        return made.ask(Question(**{"base": base, "new": new, "fail_above": 0.05, "anyway": False, **changes}))

    first = ask()
    first.future.result(20)
    growing()
    assert ask() is first, "not due"
    assert ask(fail_above=0.5) is not first, "asked for by a person"
    monkeypatch.setattr(compare_store, "RENEW_S", 0.0)
    monkeypatch.setattr(compare_store, "PAUSE_SHARE", 0.0)
    with made._turn:
        later = ask()
        assert later is not first
        assert ask() is later, "one at a time"
        assert made.last_answer(later.question) is first
    later.future.result(20)
    assert made.last_answer(later.question) is later


def test_while_a_newer_comparison_is_made_the_last_one_is_shown(growing, monkeypatch):
    monkeypatch.setattr(compare_store, "RENEW_S", 0.0)
    monkeypatch.setattr(compare_store, "PAUSE_SHARE", 0.0)
    app = opened()
    monkeypatch.setattr(compare_store, "WAIT_S", 0)
    growing()
    with compare_store.comparisons()._turn:
        app.run()
        assert not app.exception
        told = text(app)
    assert "The runs are being read" not in told
    assert "OK" in told
    assert "NEW is still being measured" in told


def test_what_is_broken_or_missing_is_told_with_the_answer(results):
    planted_run(results / BASE, started_at="2026-03-01T19:08:11+00:00")
    grid = Grid(batch_size=(3,), seq_len=(5,), num_heads=(2,), d_model=10, device="cpu")
    write_run(
        results / NEW,
        [lost_row("custom", "crashed", "signal 11"), make_row("official")],
        grid=grid,
        started_at="2026-03-02T19:08:11+00:00",
    )
    (answer,) = opened().error
    told = answer.value.replace("\\", "")
    assert "Broken: custom worked in BASE at 1 shape and no longer does: lost: crashed in NEW." in told
    assert "custom: 1 of 2 shapes of BASE not asked for in NEW." in told


def test_a_layer_has_one_name_wherever_the_page_tells_of_it(results):
    right, left = (f"{Path(__file__).with_name('own_layers.py')}:{name}" for name in ("Right", "Exits"))
    settings = SweepSettings(contenders=(right, left), time_budget_s=0.02)

    def row(name, point, **changes):
        return make_row("custom", point=point, **changes) | {"contender": name}

    def lost(name):
        return lost_row("custom", "crashed", "signal 11") | {"contender": name}

    both = [row(name, point) for name in (right, left) for point in (1, 2)]
    official = [make_row("official", point=point) for point in (1, 2)]
    write_run(results / BASE, [*both, *official], settings=settings)
    edited = row(right, 2, source_hash="another")
    write_run(results / NEW, [lost(right), edited, lost(left), *official], settings=settings)
    app = opened(base=BASE, new=NEW)
    told = text(app)
    for sentence in (
        "Broken: Right worked in BASE at 1 shape and no longer does: lost: crashed in NEW.",
        "Exits: 1 of 2 shapes of BASE asked for in NEW and not measured: NEW is finished.",
        "Coverage: Right: 1 of 2 shapes compared; 1: crashed in NEW.",
        "Note: not of the same source in BASE and NEW: Right.",
        "**Right**",
    ):
        assert sentence in told
    assert set(app.dataframe[0].value["contender"]) == {"Right", "Exits", "official"}
    assert "own_layers.py" not in told + app.get("plotly_chart")[0].proto.spec


def test_the_chart_calls_layers_as_it_is_told_to(found):
    names = {name: f"layers/{name}" for name in found.names}
    (custom,) = [trace for trace in compare_chart(choose_rows(found.rows), names).data if trace.name == "layers/custom"]
    assert "layers/custom" in custom.text[0]


def test_a_bug_in_a_comparison_is_raised_where_its_answer_is_asked_for(slower, results, monkeypatch):
    monkeypatch.setattr(compare_store, "compare_sides", lambda *_, **__: 1 / 0)
    given = given_of(read_run(results / BASE), None)
    asked = Comparisons().ask(Question(base=given, new=given, fail_above=0.05, anyway=False))
    with pytest.raises(ZeroDivisionError):
        asked.future.result(20)


def test_what_cannot_be_compared_is_told_by_its_label(results):
    planted_run(results / BASE)
    (results / BASE / MEASUREMENTS_FILE).unlink()
    given = given_of(read_run(results / BASE), "mine")
    asked = Comparisons().ask(Question(base=given, new=given, fail_above=0.05, anyway=False))
    with pytest.raises(CompareError, match=r"^mine holds no row"):
        asked.future.result(20)


# -- table and chart ---


@pytest.fixture
def found(slower, results):
    return compare_runs(results / BASE, results / NEW)


def test_the_table_is_in_the_order_of_the_command_line(found):
    rows = pd.concat(
        [
            found.rows.assign(verdict=verdict, change_percent=change, is_regression=is_regression, is_yardstick=is_it)
            for verdict, change, is_regression, is_it in [
                ("same", 0.5, False, False),
                ("slower", 3.0, False, False),
                ("slower", 7.0, False, False),
                (None, None, False, False),
                ("faster", -8.0, True, False),
                ("unsure", 40.0, False, True),
            ]
        ],
        ignore_index=True,
    ).astype(found.rows.dtypes.to_dict())
    rows["point_base"] = range(len(rows))
    told = [row["point_base"] for row in worst_first(type(found)(**{**vars(found), "rows": rows}))]
    assert compare_table.worst_first(rows)["point_base"].tolist() == told
    assert told != sorted(told)


def test_the_chart_has_a_mark_a_row_full_where_a_difference_is_claimed(found):
    figure = compare_chart(choose_rows(found.rows))
    traces = {trace.name: trace for trace in figure.data}
    assert set(traces) == {"noise, no claim within", "custom", REGRESSION, NOT_MEASURED}
    (row,) = found.rows[found.rows["change_percent"].notna() & ~found.rows["is_yardstick"]].to_dict("records")
    custom = traces["custom"]
    assert list(custom.x) == [row["change_percent"]]
    assert list(custom.error_x.array) == pytest.approx([row["change_high_percent"] - row["change_percent"]])
    assert list(custom.error_x.arrayminus) == pytest.approx([row["change_percent"] - row["change_low_percent"]])
    assert list(custom.marker.symbol) == ["circle"]
    assert list(traces[REGRESSION].y) == [0, 1]
    assert list(traces[REGRESSION].customdata) == [[1, 1], [2, 2]], "what a click is about"
    assert list(traces[NOT_MEASURED].x) == [0], "on the zero line, not a change"
    assert "oom in NEW" in traces[NOT_MEASURED].text[0]
    assert list(figure.layout.yaxis.ticktext) == ["b 3 s 5 h 2 d 10", "b 3 s 7 h 2 d 10"]


def test_what_claims_nothing_is_hollow_and_what_does_not_count_grey(results):
    planted_run(results / BASE)
    changed = {("custom", 2): {"check_verdict": "fail"}}
    rows = compare_runs(results / BASE, planted_run(results / NEW, seed=5, cells=changed)).rows
    (custom,) = [trace for trace in compare_chart(choose_rows(rows)).data if trace.name == "custom"]
    assert list(custom.marker.symbol) == ["circle-open", "circle-open"]
    assert custom.marker.color[0] != UNRELIABLE == custom.marker.color[1]


def test_of_many_shapes_the_worst_are_drawn_and_the_others_counted(found):
    row = found.rows[found.rows["change_percent"].notna() & ~found.rows["is_yardstick"]]
    many = pd.concat([row.assign(seq_len=length, change_percent=float(length % 37)) for length in range(1, 102)])
    drawn = choose_rows(many.astype(found.rows.dtypes.to_dict()))
    assert (drawn.shapes, drawn.shapes_left_out) == (MOST_SHAPES, 101 - MOST_SHAPES)
    assert drawn.rows["change_percent"].min() == 20, (
        "three shapes of each of 21 to 27, two of each of 28 to 36, and one"
    )
    assert drawn.rows["seq_len"].is_monotonic_increasing, "in the order of the grid"
    assert len(compare_chart(drawn).layout.yaxis.ticktext) == MOST_SHAPES


def test_the_axis_does_not_follow_an_interval_beyond_measure(found):
    rows = found.rows.assign(change_high_percent=3e6, change_low_percent=-99.9)
    reach = compare_chart(choose_rows(rows)).layout.xaxis.range
    assert reach[1] < 150
    assert reach[0] >= -115


def test_the_chart_is_told_in_words(found):
    told = compare_alt(found.rows, found.verdicts, 2)
    assert "1 slower" in told
    assert told.endswith("2 regressions.")


def test_names_of_others_do_no_harm_in_the_chart(found):
    rows = found.rows.assign(contender=found.rows["contender"].replace("custom", "a.py:<img src=x onerror=1>"))
    written = json.dumps(compare_chart(choose_rows(rows)).to_plotly_json(), default=str)
    assert "<img" not in written
