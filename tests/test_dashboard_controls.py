import pytest

from dashboard import session
from dashboard.controls import wish
from dashboard.layers import Layers
from dashboard.presets import DEFAULTS, PRESETS, matching, values_of
from profiling.cli import main
from profiling.estimate import estimate
from profiling.repeat import sweep_arguments
from profiling.settings import CONTENDERS, SweepSettings
from profiling.workload import Grid


def test_a_bare_url_asks_for_the_quick_preset():
    asked = wish({})
    assert asked.error == ""
    assert asked.grid == Grid(batch_size=(1, 4), seq_len=(64, 256), num_heads=(4, 8), d_model=512)
    assert asked.settings == SweepSettings(time_budget_s=0.2)


def test_the_quick_preset_takes_less_than_half_a_minute_on_two_threads():
    asked = wish({})
    assert 15 < estimate(asked.grid, asked.settings, threads=2).seconds < 28


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_told_by_its_values(preset):
    assert matching(values_of(preset)) == preset
    assert wish(values_of(preset)).error == ""


def test_values_of_no_preset_are_told_as_custom():
    assert matching({**DEFAULTS, session.SEQ_LEN: "64,257"}) == "custom"


def test_blanks_and_order_of_choices_make_no_other_preset():
    assert matching({**DEFAULTS, session.SEQ_LEN: "64,256", session.CONTENDERS: list(CONTENDERS[::-1])}) == "quick"


def test_head_dim_held_fixed_leaves_d_model_open():
    grid = wish({session.WIDTH_KIND: "head_dim", session.HEAD_DIM: 33}).grid
    assert (grid.d_model, grid.head_dim) == (None, 33)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (session.BATCH_SIZE, "1,,4", "batch_size must have a value between any two commas"),
        (session.SEQ_LEN, "12.5", "seq_len must be whole numbers separated by commas, not '12.5'"),
        (session.NUM_HEADS, "0", "num_heads must be a whole number of at least 1, not 0"),
        (session.NUM_HEADS, "", "num_heads must hold at least one value"),
        (session.D_MODEL, None, "d_model must be a whole number of at least 1"),
        (session.DTYPE, [], "dtype must hold at least one value"),
        (session.DTYPE, ["float8"], "dtype must be one of"),
        (session.CONTENDERS, ["sneaky.py:Layer"], "contenders must be among"),
        (session.CONTENDERS, ["compiled:sneaky.py:Layer"], "contenders must be among"),
        (session.COMPILED, ["sneaky.py:Layer"], "contenders must be among"),
        (session.SEED, None, "seed must hold a number"),
        (session.TIME_BUDGET, -1.0, "time_budget_s must be a number of seconds above 0"),
        (session.HEAP, "other", "heap must be one of"),
    ],
)
def test_a_value_that_breaks_a_rule_is_one_sentence(name, value, sentence):
    asked = wish({name: value})
    assert asked.grid is None
    assert sentence in asked.error


def test_the_command_line_of_a_sweep_names_everything_that_the_controls_chose():
    grid = Grid(batch_size=(1, 3), seq_len=(7,), num_heads=(2, 5), head_dim=11, bias=(False, True), threads=1, seed=5)
    settings = SweepSettings(contenders=("custom",), replicates=2, time_budget_s=0.25, quiet_wait_s=7.5, heap="as-is")
    words = sweep_arguments(grid, settings)
    assert words[0] == "sweep"
    assert "--reference" not in words
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options == {
        "--batch-size": "1,3",
        "--seq-len": "7",
        "--num-heads": "2,5",
        "--head-dim": "11",
        "--dtype": "float32",
        "--mode": "inference",
        "--bias": "no,yes",
        "--device": "auto",
        "--threads": "1",
        "--seed": "5",
        "--contenders": "custom,official",
        "--replicates": "2",
        "--time-budget": "0.25",
        "--quiet-wait": "7.5",
        "--heap": "as-is",
    }


def test_layers_of_ones_own_stand_after_the_four_and_are_named_one_by_one_for_a_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a, b.py").write_text("")
    own = ("a, b.py:A", "a, b.py:B")
    asked = wish({session.CONTENDERS: [*own[::-1], "custom"], "reference": "official-fused"}, Layers(specs=own))
    assert asked.settings.contenders == ("custom", *own, "official", "official-fused")
    words = sweep_arguments(asked.grid, asked.settings)
    assert words[words.index("--contenders") + 1] == "custom,official,official-fused"
    assert [words[i + 1] for i, word in enumerate(words) if word == "--contender"] == list(own)
    assert words[words.index("--reference") + 1] == "official-fused"
    taken = main.commands["sweep"].make_context("sweep", words[1:]).params
    assert taken["own"] == own


def test_with_layers_registered_a_bare_url_measures_them_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    assert wish({}, Layers(specs=("a.py:A",))).settings.contenders == (*CONTENDERS, "a.py:A")


def test_what_is_also_compiled_is_a_contender_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    values = {session.CONTENDERS: ["custom"], session.COMPILED: ["a.py:A", "official"]}
    asked = wish(values, Layers(specs=("a.py:A",)))
    assert asked.settings.contenders == ("custom", "compiled:official", "compiled:a.py:A", "official")
    words = sweep_arguments(asked.grid, asked.settings)
    assert words[words.index("--contenders") + 1] == "custom,compiled:official,official"
    assert [words[i + 1] for i, word in enumerate(words) if word == "--contender"] == ["compiled:a.py:A"]


def test_the_fast_path_is_a_choice_and_not_chosen_unasked():
    assert "official-fastpath" not in wish({}).settings.contenders
    asked = wish({session.CONTENDERS: ["official-fastpath"]})
    assert asked.settings.contenders == ("official-fastpath", "official")
