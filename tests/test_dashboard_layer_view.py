"""The view for one layer as Streamlit runs it, without a browser and without measuring."""

import time

import pytest
from dashboard_fakes import FakeChecker, full_report, report
from streamlit.testing.v1 import AppTest

from dashboard import services
from dashboard.layer_controls import options_of, wish
from dashboard.layers import Layers
from dashboard.live_checks import LIMIT_S, LiveChecks
from profiling.child_process import ChildDied
from profiling.device_lock import DeviceLock
from profiling.protocol import Running

VIEW = "from dashboard.views import layer\nlayer.show()"
OWN = "my_attention.py:MyAttention"


@pytest.fixture
def checker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "my_attention.py").write_text("")
    return FakeChecker({OWN: full_report()})


@pytest.fixture(autouse=True)
def live_checks(checker, monkeypatch):
    checks = LiveChecks(lambda: checker)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", lambda: Layers(specs=(OWN,)))
    yield checks
    checks.close()


def opened(**params):
    app = AppTest.from_string(VIEW, default_timeout=20)
    app.query_params.update(params)
    return settled(app.run())


def settled(app):
    """The view once its check is answered: a fragment's own ticking never fires here."""
    deadline = time.monotonic() + 10
    while any("Checking" in info.value for info in app.info):
        assert time.monotonic() < deadline
        time.sleep(0.02)
        app.run()
    assert not app.exception
    return app


def text(app):
    parts = (*app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.code)
    return "\n".join(part.value for part in parts)


def titles(app):
    return [part.value.removeprefix("##### ") for part in app.markdown if part.value.startswith("##### ")]


def test_ones_own_layer_is_checked_at_first_show_and_told_from_top_to_bottom():
    app = opened()
    shown = text(app)
    assert "## :red[✘ fail]" in shown
    assert "14 of 14 planted faults caught · gradients ✘ (1 of 2)" in shown
    assert "use head\\_dim" in shown
    assert "`scale-d-model`" in shown
    assert "lies at batch 1, position 5, channel 11" in shown
    assert "Nothing in the official layer corresponds to `norm.weight`" in shown
    assert titles(app) == [
        *("What explains it", "What was tried", "Error against the official layer", "Weights", "Gradients"),
        *("Probes", "Notes", "Keep it right"),
    ]
    assert {metric.label: metric.value for metric in app.metric} == {
        "max error here": "2.70e-01",
        "max error, all shapes": "3.10e-01",
        "error ratio, passes up to 2×": "400,000×",
        "plain bound 1e-05": "✘ does not hold",
    }
    assert "at position 1, head 0" in app.get("plotly_chart")[0].proto.alt


def test_the_test_and_the_command_are_for_the_layer_and_the_shape_at_hand():
    shown = text(opened(layer_d_model="32", layer_num_heads="2"))
    assert "check_consistency(MyAttention, d_model=32, num_heads=2).raise_for_verdict()" in shown
    assert "python -m profiling check my_attention.py:MyAttention --d-model 32 --num-heads 2" in shown


def test_a_report_of_an_older_engine_leaves_no_gaps(checker):
    checker.answers.clear()
    app = opened()
    assert "## :green[✓ pass]" in text(app)
    assert titles(app) == ["Error against the official layer", "Weights", "Keep it right"]
    assert app.get("plotly_chart") == []


def test_what_cannot_be_compared_has_a_verdict_and_a_reason_and_no_figures(checker):
    checker.answers[OWN] = report(
        **{"verdict": "not-comparable", "reason": "grouped-query attention", "comparisons": [], "mapping": []},
        **{"max_abs_error": None, "error_ratio": None, "plain_holds": None, "error_map": None},
    )
    app = opened()
    assert "≠ not comparable" in text(app)
    assert "grouped\\-query attention" in text(app)
    assert len(app.metric) == 0


def test_a_layer_that_takes_its_process_down_has_the_verdict_error(checker):
    checker.answers[OWN] = ChildDied("crashed", "was killed by SIGSEGV", Running("check", OWN))
    shown = text(opened())
    assert "## :red[! error]" in shown
    assert "took its process down" in shown


def test_every_control_is_in_the_link_and_reaches_the_check(checker):
    opened(
        **{"layer": "custom-fused", "layer_d_model": "30", "layer_num_heads": "5", "layer_batch_size": "3"},
        **{"layer_seq_len": "7", "layer_dtype": "float64", "layer_causal": "true", "layer_batch_first": "false"},
    )
    ((point, contender),) = checker.asked
    assert contender == "custom-fused"
    assert (point.d_model, point.num_heads, point.batch_size, point.seq_len) == (30, 5, 3, 7)
    assert (point.dtype, point.causal, point.mode) == ("float64", True, "inference")
    assert checker.options == [{"batch_first": False, "limit_s": LIMIT_S, "self_check": True}]


def test_check_asks_again():
    app = opened()
    before = len(services.live_checks()._checker.asked)
    settled(app.button(key="check_layer").click().run())
    assert len(services.live_checks()._checker.asked) == before + 1


def test_a_layer_is_checked_anew_when_its_file_was_edited(checker, tmp_path):
    app = opened()
    checker.answers[OWN] = report()
    assert "✘ fail" in text(settled(app.run()))
    (tmp_path / "my_attention.py").write_text("mended = True\n")
    assert "✓ pass" in text(settled(app.run()))
    assert len(checker.asked) == 2


def test_a_check_waits_for_a_sweep_and_is_made_after_it(checker, live_checks):
    from profiling.device_lock import DeviceBusy, owner

    lock = DeviceLock("cpu")
    lock.acquire("sweep")
    checker.answers[OWN] = DeviceBusy(owner("cpu"))
    app = opened()
    assert "Waits: cpu is busy since" in text(app)
    assert "Waits: cpu is busy since" in text(app.run())
    lock.release()
    checker.answers[OWN] = report()
    assert "✓ pass" in text(settled(app.run()))


def test_a_link_that_names_an_unregistered_layer_is_ignored_and_said_so(checker):
    app = opened(layer="sneaky.py:Layer")
    assert "The link names `sneaky.py:Layer`, which this server has not registered" in text(app)
    assert {contender for _, contender in checker.asked} == {OWN}
    app.selectbox(key="layer").set_value("custom").run()
    assert "sneaky" not in text(settled(app))


def test_a_bad_argument_of_the_program_is_told_and_the_view_works(monkeypatch):
    layers = Layers(complaints=("--layer: there is no file gone.py in /home",))
    monkeypatch.setattr(services, "layers", lambda: layers)
    app = opened()
    assert "there is no file gone\\.py" in app.warning[0].value
    assert "✓ pass" in text(app)
    assert "streamlit run dashboard/app.py -- --layer my_attention.py:MyAttention" in text(app)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"layer_num_heads": "3"}, "d\\_model 64 is not divisible by num\\_heads 3"),
        ({"layer_seq_len": "30000"}, "takes too long to be live"),
    ],
)
def test_a_shape_that_cannot_be_checked_here_is_told(checker, params, sentence):
    assert sentence in text(opened(**params))
    assert checker.asked == []


def test_a_layer_that_is_not_registered_is_never_asked_for_whatever_the_session_says():
    asked = wish({"layer": "sneaky.py:Layer"}, Layers(), None)
    assert asked.contender in options_of(Layers())


@pytest.mark.parametrize("name", ["layer_d_model", "layer_seq_len"])
def test_an_empty_number_is_one_sentence(name):
    assert wish({name: None}, Layers(), None).error == (
        f"{name.removeprefix('layer_')} must be a whole number of at least 1, not empty"
    )
