"""The operators' view: what it begins with, what it asks for, the process that answers, and what is drawn of that."""

import json
import sys
import time

import pytest
from click.testing import CliRunner
from dashboard_fakes import FakeChecker, FakeJobs, opened
from dashboard_samples import make_run
from made_up_operators import made_up, made_up_profile, timed
from streamlit.testing.v1 import AppTest

from dashboard import operator_controls, operator_tables, services, session, snippets
from dashboard.jobs import JobError
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks, Machine
from dashboard.operator_panel import in_order
from dashboard.profiles import MOST_ANSWERS, Answer, Profiles, Question, Trace
from profiling.cli import main
from profiling.device_lock import DeviceLock
from profiling.operators.profiler import OperatorProfiler
from profiling.operators.report_text import report_dict
from profiling.operators.result import ContenderProfile
from profiling.settings import SweepSettings
from profiling.stopping import StopSwitch
from profiling.workload import Grid, Workload

VIEW = "from dashboard.views import operators\noperators.show()"
OWN = "my_attention.py:MyAttention"
GRID = Grid(batch_size=(3,), seq_len=(7, 11), num_heads=(2, 5), d_model=10, device="cpu")
CUSTOM = made_up("custom", timed("mm", "projections", 400), timed("clone", "copies and layout", 310, 4))
OFFICIAL = made_up(
    "official", timed("mm", "projections", 500), timed("bmm", "scores", 100, 3), timed("add", "scores", 7)
)
FOUND = made_up_profile(CUSTOM, OFFICIAL, trace_bytes=3 * 2**19)
NO_LAYERS = Layers()
CPU = Machine(device="cpu", description="Test CPU", threads=2, torch_version="2.13.0", devices=("cpu",))


class FakeProfiles:
    """Remembers what it was asked for and starts nothing; the answer to every question is `answer`."""

    def __init__(self):
        self.answer, self.trace, self.running, self.refusal = None, None, None, None
        self.started, self.is_stopped, self.is_edited = [], False, False

    def answer_to(self, question):
        return self.answer

    def trace_of(self, question):
        return self.trace

    def was_edited(self, question):
        return self.is_edited

    def start(self, question, *, is_trace=False):
        if self.refusal is not None:
            raise self.refusal
        self.started.append((question, is_trace))

    def stop(self):
        self.is_stopped = True


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_attention.py").write_text("")
    return tmp_path / "results"


@pytest.fixture
def profiles(monkeypatch):
    """The view's surroundings, with nothing in them that measures."""
    fake, checks = FakeProfiles(), LiveChecks(FakeChecker)
    monkeypatch.setattr(services, "profiles", lambda: fake)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", lambda: Layers(specs=(OWN,)))
    monkeypatch.setattr(services, "jobs", FakeJobs)
    yield fake
    checks.close()


def view(**params):
    app = AppTest.from_string(VIEW, default_timeout=20)
    app.query_params.update(params)
    app.run()
    assert not app.exception
    return app


def text(app):
    parts = (*app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.code)
    return "\n".join(part.value for part in parts)


def fields(app):
    keys = (session.OPERATORS_BATCH_SIZE, session.OPERATORS_SEQ_LEN, session.OPERATORS_NUM_HEADS)
    return tuple(app.number_input(key=key).value for key in (*keys, session.OPERATORS_D_MODEL))


def pressed(app, key):
    app.button(key=key).click().run()
    assert not app.exception
    return app


def pair(app):
    return app.selectbox(key=session.OPERATORS_ONE).value, app.selectbox(key=session.OPERATORS_OTHER).value


# What the view begins with.


def test_it_begins_with_the_slowest_point_of_the_run_and_its_first_contender_beside_its_reference(profiles, results):
    make_run(results / "r", grid=GRID, settings=SweepSettings(contenders=("custom-fused", "official", "custom")))
    app = view()
    assert fields(app) == (3, 11, 5, 10)
    assert pair(app) == ("custom-fused", "official-fused")
    assert app.query_params[session.OPERATORS_SEQ_LEN] in ("11", ["11"]), "a link leads to the same point"


@pytest.mark.parametrize(
    ("run_id", "sizes"), [("r", (3, 7, 2, 10)), pytest.param("another", (3, 11, 5, 10), id="a point of another run")]
)
def test_it_begins_with_the_point_whose_samples_were_looked_at(profiles, results, run_id, sizes):
    make_run(results / "r", grid=GRID)
    app = AppTest.from_string(VIEW, default_timeout=20)
    app.session_state[session.CHOSEN_POINT] = (run_id, {"seq_len": 7, "num_heads": 2})
    assert fields(app.run()) == sizes


def test_another_point_whose_samples_are_looked_at_takes_the_place_of_what_was_chosen(profiles, results):
    make_run(results / "r", grid=GRID)
    app = view()
    app.number_input(key=session.OPERATORS_SEQ_LEN).set_value(13).run()
    assert fields(app) == (3, 13, 5, 10)
    app.query_params.clear()  # as a click in the navigation does
    app.session_state[session.CHOSEN_POINT] = ("r", {"seq_len": 7, "num_heads": 2})
    assert fields(app.run()) == (3, 7, 2, 10)


def test_an_address_has_the_say_before_the_run(profiles, results):
    make_run(results / "r", grid=GRID)
    app = view(op_seq_len="13", op_d_model="24", op_other="custom-fused", op_mode="training", op_causal="true")
    assert fields(app) == (1, 13, 8, 24)
    assert pair(app) == ("custom", "custom-fused")
    pressed(app, "profile")
    words = profiles.started[0][0].arguments
    assert "--contenders custom,custom-fused --batch-size 1 --seq-len 13 --num-heads 8 --d-model 24" in " ".join(words)
    assert "--mode training --causal yes" in " ".join(words)


def test_without_any_run_it_begins_with_usual_sizes(profiles):
    app = view()
    assert fields(app) == (1, 512, 8, 512)
    assert pair(app) == (OWN, "official"), "a layer of one's own comes first"


def test_what_an_address_asks_for_in_vain_is_told(profiles):
    shown = text(view(op_seq_len="many", op_one="evil.py:Layer", op_other="nobody"))
    assert "seq\\_len must be a whole number" in shown
    assert "contenders must be among" in shown.replace("\\", "")
    assert "`evil.py:Layer`, which this server has not registered" in shown


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"op_num_heads": "7", "op_d_model": "64"}, "d_model 64 is not divisible by num_heads 7"),
        ({"op_one": "official"}, "the two contenders must differ, and both are 'official'"),
    ],
)
def test_what_cannot_be_profiled_is_told_and_cannot_be_started(profiles, params, sentence):
    app = view(**params)
    assert sentence in text(app).replace("\\", "")
    assert app.button(key="profile").disabled


def test_a_layer_of_the_run_is_offered_by_the_name_that_it_has_here_or_told_as_left_out(results, tmp_path):
    (tmp_path / "other.py").write_text("")
    own, other = f"{tmp_path}/my_attention.py:MyAttention", "other.py:Other"
    run = make_run(
        results / "r", settings=SweepSettings(contenders=(other, f"compiled:{own}", own), reference="official-fused")
    )
    start = operator_controls.start_of(run, {}, Layers(specs=(OWN,)), CPU)
    assert start.contenders[:3] == (f"compiled:{OWN}", OWN, "official-fused")
    assert start.left_out == (other,)
    assert start.pair == (f"compiled:{OWN}", "official-fused")


def test_a_run_of_a_device_that_is_not_here_begins_on_one_that_is(results):
    run = make_run(results / "r", device="cuda:0", threads=3)
    start = operator_controls.start_of(run, {}, NO_LAYERS, CPU)
    assert (start.workload.device, start.threads) == ("cpu", 3)
    assert operator_controls.start_of(run, {}, NO_LAYERS, None).workload.device == "cuda:0", "not known yet"


def test_a_width_that_grows_with_the_heads_is_that_of_the_point(results):
    run = make_run(results / "r", grid=Grid(batch_size=(3,), seq_len=(7,), num_heads=(2, 5), head_dim=6, device="cpu"))
    point = operator_controls.point_of(run, {"num_heads": 5})
    assert (point.num_heads, point.d_model) == (5, 30)


# The command line.

POINT = Workload(
    **{"batch_size": 3, "seq_len": 7, "num_heads": 2, "d_model": 10, "dtype": "float64", "device": "cpu"},
    **{"mode": "training", "bias": True, "causal": True, "threads": 1, "seed": 5},
)


@pytest.mark.parametrize(
    ("contenders", "reference", "profiled"),
    [
        (("custom", "official-fused"), "official", ["custom", "official-fused"]),
        ((OWN, "official-fused"), "official-fused", [OWN, "official-fused"]),
        ((OWN, "custom"), "official-fastpath", ["custom", OWN]),
        ((f"compiled:{OWN}", OWN), "official", [f"compiled:{OWN}", OWN]),
    ],
)
def test_the_command_line_asks_for_the_point_and_the_two(monkeypatch, contenders, reference, profiled):
    asked = {}

    def note(self, num_calls, **_):
        asked.update(grid=self._grid, settings=self._settings, profiled=self._profiled)
        return FOUND

    monkeypatch.setattr(OperatorProfiler, "profile", note)
    monkeypatch.setattr(StopSwitch, "on_signals", lambda _: None)
    monkeypatch.setattr(StopSwitch, "on_end_of_input", lambda _: asked.update(stops=True))
    words = snippets.profile_arguments(POINT, contenders, reference=reference, heap="as-is", threads=1)
    done = CliRunner().invoke(main, [*words, "--json", "--stop-on-eof"])
    assert done.exit_code == 0, done.output
    assert list(asked["grid"].workloads()) == [POINT]
    assert asked["profiled"] == profiled
    assert (asked["settings"].reference, asked["settings"].heap) == (
        reference if OWN in str(contenders) else "official",
        "as-is",
    )
    assert asked["stops"], "it ends with whoever started it"


# The process that answers.

ANSWERS = "import json, sys; print(json.dumps(json.load(open('told.json'))))"
WRITES = "import sys; open(sys.argv[sys.argv.index('--trace') + 1], 'w').write('{}'); print('{}')"
WAITS = "import sys; print('waiting: cpu is busy', file=sys.stderr, flush=True); sys.stdin.read()"


def answering(code):
    return Profiles([sys.executable, "-S", "-c", code])


def question(number=0, stamp=()):
    return Question(arguments=("profile", str(number)), contenders=("custom", "official"), device="cpu", stamp=stamp)


def answered(made, asked, **how):
    made.start(asked, **how)
    assert made.wait(20)
    return made.answer_to(asked)


def test_an_answer_is_the_profile_that_the_process_told_and_nothing_stays_of_the_process(tmp_path):
    (tmp_path / "told.json").write_text(json.dumps(report_dict(FOUND)))
    made = answering(ANSWERS)
    assert made.answer_to(question()) is None
    answer = answered(made, question())
    assert report_dict(answer.profile) == report_dict(FOUND)
    assert not list(tmp_path.glob("mha-bench-job-*"))


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import sys; print('{\"error\": \"no\"}'); sys.exit('error: it needs 9 GiB')", "it needs 9 GiB"),
        ("import os; os._exit(3)", "the profile ended with status 3"),
        ("print('no JSON')", "the profile ended with status 0"),
        ("import sys; print('{\"contenders\": []}'); sys.stderr.write('x' * 5000)", "x" * 1000),
    ],
)
def test_a_process_that_tells_no_profile_is_told_by_its_last_words(code, sentence):
    assert answered(answering(code), question()) == Answer(error=sentence)


def test_a_trace_is_what_the_process_wrote_or_why_it_did_not():
    made = answering(WRITES)
    answered(made, question(), is_trace=True)
    assert made.trace_of(question()) == Trace(text=b"{}")
    failing = answering("import sys; sys.exit('error: no room')")
    answered(failing, question(), is_trace=True)
    assert failing.trace_of(question()) == Trace(error="no room")


def test_one_at_a_time_and_a_stopped_one_has_no_answer():
    made = answering(WAITS)
    made.start(question())
    deadline = time.monotonic() + 10
    while not made.running.aside and time.monotonic() < deadline:
        time.sleep(0.01)
    assert made.running.aside == "waiting: cpu is busy"
    with pytest.raises(JobError, match="custom and official are being profiled"):
        made.start(question(1))
    made.close()
    assert made.running is None
    assert made.answer_to(question()) is None


def test_it_ends_when_nobody_holds_its_input(tmp_path):
    made = answering(WAITS)
    made.start(question())
    made.running._process.stdin.close()  # as the end of this process would
    assert made.wait(10)
    assert "busy" in made.answer_to(question()).error


def test_nothing_is_profiled_beside_a_sweep():
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="r")
    try:
        with pytest.raises(JobError, match=r"cpu is busy since .* with sweep r"):
            answering(ANSWERS).start(question())
    finally:
        lock.release()


def test_a_process_that_cannot_be_started_is_a_sentence(tmp_path):
    with pytest.raises(JobError, match="no process can be started: No such file"):
        Profiles([str(tmp_path / "gone")]).start(question())
    assert not list(tmp_path.glob("mha-bench-job-*"))


def test_an_edit_asks_anew_and_old_answers_are_forgotten(tmp_path):
    (tmp_path / "told.json").write_text(json.dumps(report_dict(FOUND)))
    made = answering(ANSWERS)
    answered(made, question(stamp=(1,)))
    assert made.answer_to(question(stamp=(2,))) is None
    assert made.was_edited(question(stamp=(2,)))
    assert not made.was_edited(question(1))
    for number in range(MOST_ANSWERS):
        answered(made, question(number))
    assert made.answer_to(question(stamp=(1,))) is None
    assert made.answer_to(question()) is not None


def test_a_real_profile_adds_up_and_says_how_large_its_trace_would_be():
    words = snippets.profile_arguments(POINT, ("custom", "official"), reference="official", heap="pinned", threads=1)
    made = Profiles()
    asked = Question(arguments=tuple(words), contenders=("custom", "official"), device="cpu")
    try:
        made.start(asked)
        assert made.wait(60)
        answer = made.answer_to(asked)
    finally:
        made.close()
    assert answer.error == ""
    assert answer.profile.workload == POINT
    assert (answer.profile.mismatches, answer.profile.lost) == ([], [])
    assert answer.profile.trace_bytes > 10_000


# Tables.


def test_the_table_of_roles_holds_what_was_profiled():
    table = operator_tables.by_role(FOUND)
    assert table.to_dict("records") == [
        {
            **{"role": "projections", "custom: time": "400 µs", "custom: share": "56.3 %", "custom: calls": "1"},
            **{"official: time": "500 µs", "official: share": "82.4 %", "official: calls": "1"},
            "difference": "−100 µs",
        },
        {
            **{"role": "scores", "custom: time": "–", "custom: share": "–", "custom: calls": "–"},
            **{"official: time": "107 µs", "official: share": "17.6 %", "official: calls": "4"},
            "difference": "−107 µs",
        },
        {
            **{"role": "copies and layout", "custom: time": "310 µs", "custom: share": "43.7 %", "custom: calls": "4"},
            **{"official: time": "–", "official: share": "–", "official: calls": "–"},
            "difference": "+310 µs",
        },
        {
            **{"role": "profiled call", "custom: time": "710 µs", "custom: share": "100 %", "custom: calls": ""},
            **{"official: time": "607 µs", "official: share": "100 %", "official: calls": ""},
            "difference": "+103 µs",
        },
    ]


def test_the_table_of_names_has_the_longest_operator_of_a_role_first():
    table = operator_tables.by_name(FOUND)
    assert table[["role", "operator", "custom: calls", "official: calls", "official: time"]].values.tolist() == [
        ["projections", "mm", "1", "1", "500 µs"],
        ["scores", "bmm", "–", "3", "100 µs"],
        ["scores", "add", "–", "1", "7.00 µs"],
        ["copies and layout", "clone", "4", "–", "–"],
    ]


def test_a_device_has_a_column_of_its_own():
    with_kernel = timed("mm", "projections", 400)
    one = made_up("custom", type(with_kernel)(**{**with_kernel.__dict__, "device_ns": 90_000}))
    table = operator_tables.by_role(made_up_profile(one, OFFICIAL))
    assert table["custom: device"].tolist() == ["90.0 µs", "–", ""]


def test_contenders_stand_in_the_order_in_which_they_were_asked_for():
    ordered = in_order(FOUND, ("official", "custom"))
    assert [each.contender for each in ordered.contenders] == ["official", "custom"]


# What is drawn.


def test_at_first_it_says_what_it_would_do_and_the_button_does_it(profiles):
    app = view(op_one="custom")
    assert "*Profile* runs custom and official under torch's profiler" in text(app)
    pressed(app, "profile")
    ((asked, is_trace),) = profiles.started
    assert (asked.contenders, asked.device, is_trace) == (("custom", "official"), "cpu", False)


def test_a_profile_is_told_in_words_bars_tables_and_a_command(profiles):
    profiles.answer = Answer(profile=FOUND)
    app = view(op_one="custom")
    shown = text(app).replace("\\", "")
    assert "custom spends 310 µs more in copies and layout: 4 clone calls that official does not make." in shown
    assert "✓ The roles add up to the profiled total: custom 0.710000 ms of 0.710000 ms; official 0.607000 ms" in shown
    assert "python -m profiling profile --contenders custom,official --batch-size 1" in shown
    (chart,) = app.get("plotly_chart")
    assert "most of it in projections" in chart.proto.alt.replace("\\", "")
    assert [len(each.value) for each in app.dataframe] == [4, 4]


def test_a_profile_that_does_not_add_up_is_complained_of(profiles):
    profiles.answer = Answer(
        profile=made_up_profile(made_up("custom", timed("mm", "scores", 9), total_ns=99_000), OFFICIAL)
    )
    shown = text(view(op_one="custom")).replace("\\", "")
    assert "The operators of custom do not add up: 90.0 µs less than the profiled 99.0 µs of a call" in shown
    assert "✓" not in shown


def test_a_contender_that_was_lost_is_told_and_the_other_drawn(profiles):
    lost = ContenderProfile(contender="official", status="crashed", status_reason="ended by signal 11, in *operators*")
    profiles.answer = Answer(profile=made_up_profile(CUSTOM, lost))
    app = view(op_one="custom")
    assert "official could not be profiled: crashed, ended by signal 11, in \\*operators\\*" in text(app)
    assert len(app.get("plotly_chart")) == 1


def test_what_went_wrong_is_a_sentence(profiles):
    profiles.answer = Answer(error="it needs *9* GiB")
    assert "Not profiled: it needs \\*9\\* GiB" in text(view())
    profiles.answer, profiles.refusal = None, JobError("Not started: no process.")
    assert "Not started\\: no process\\." in text(pressed(view(), "profile"))


def test_a_sweep_keeps_the_button_off_and_is_named(profiles):
    lock = DeviceLock("cpu")
    lock.acquire("sweep", run_id="r-7")
    try:
        app = view(op_one="custom")
    finally:
        lock.release()
    assert app.button(key="profile").disabled
    assert "cpu is busy since" in text(app)
    assert "with sweep r\\-7" in text(app)


def test_while_it_is_made_it_can_be_stopped(profiles):
    class Made:
        question, is_trace, is_stopped, seconds, aside = question(), False, False, 12.0, "waiting: cpu is busy"

    profiles.running = Made
    app = view(op_one="custom")
    assert "Profiling custom and official, 12 s … waiting\\: cpu is busy." in text(app)
    assert app.button(key="profile").disabled
    pressed(app, "stop_profile")
    assert profiles.is_stopped


def test_an_edit_is_told(profiles):
    profiles.is_edited = True
    assert "edited since it was profiled" in text(view())


def test_a_traces_size_is_said_first_and_the_download_comes_when_it_is_made(profiles):
    profiles.answer = Answer(profile=FOUND)
    app = view(op_one="custom")
    assert "about 1.50 MiB" in text(app).replace("\\", "")
    pressed(app, "make_trace")
    assert profiles.started[-1][1]
    profiles.trace = Trace(text=bytes(2**19))
    (button,) = view(op_one="custom").get("download_button")
    assert button.proto.label == "Download trace (512 KiB)"
    profiles.trace = Trace(error="no room")
    assert "No trace: no room" in text(view(op_one="custom"))


def test_a_trace_that_is_too_large_is_not_offered(profiles):
    profiles.answer = Answer(profile=made_up_profile(CUSTOM, OFFICIAL, trace_bytes=70 * 2**20))
    app = view(op_one="custom")
    assert app.button(key="make_trace").disabled
    assert "of which the page takes 64.0 MiB at most" in text(app).replace("\\", "")


def test_samples_link_to_the_operators_of_their_point(profiles, results):
    make_run(results / "r", grid=GRID, num_rounds=7)
    app = opened(run="r", tab="Samples", sample_seq_len="7", sample_num_heads="2")
    (link,) = [each for each in app.get("page_link") if "operators" in each.proto.label]
    query = link.proto.query_string
    assert "op_batch_size=3&op_seq_len=7&op_num_heads=2&op_d_model=10" in query
    assert "op_mode" not in query, "what the controls hold anyway would only be a step in the browser's history"
    assert app.session_state[session.CHOSEN_POINT] == ("r", {"seq_len": 7, "num_heads": 2})


def test_a_point_of_the_run_links_back_to_its_samples_and_another_point_does_not(profiles, results):
    make_run(results / "r", grid=GRID, num_rounds=7)
    app = view(run="r", op_batch_size="3", op_seq_len="11", op_num_heads="5", op_d_model="10")
    (link,) = [each for each in app.get("page_link") if each.proto.label == "The samples of this point"]
    assert link.proto.query_string == "run=r&tab=Samples&sample_seq_len=11&sample_num_heads=5"
    app.number_input(key=session.OPERATORS_SEQ_LEN).set_value(13).run()
    assert not app.exception
    assert not app.get("page_link")


def test_a_point_that_the_controls_hold_anyway_is_named_whole():
    point = {"batch_size": 1, "seq_len": 512, "num_heads": 8, "d_model": 512, "dtype": "float32", "mode": "inference"}
    workload = Workload(**point, bias=False, causal=False, device="cpu", threads=1, seed=42)
    named = operator_controls.changed_of(workload, ("custom", "official"))
    assert named == operator_controls.query_of(workload, ("custom", "official"))
    assert operator_controls.changed_of(workload, ("custom-fused", "official")) == {"op_one": "custom-fused"}
