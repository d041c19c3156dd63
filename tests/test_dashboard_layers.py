import os

import pytest

from dashboard.layers import Layers, parse, stamp
from profiling.charts.names import file_of, name_of, names_of
from profiling.charts.palette import style_of
from profiling.layers import COMPILED
from profiling.settings import REFERENCES


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with two layer files; nothing in them is run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("raise SystemExit\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "b.py").write_text("")
    return tmp_path


def test_without_arguments_no_layer_is_registered():
    assert parse([]) == Layers()


def test_layers_are_registered_as_given_in_their_order(here):
    found = parse(["--layer", "parts/b.py:Block.Attention", "--layer=a.py:A", "--layer", f"{here}/a.py:make"])
    assert found.specs == ("parts/b.py:Block.Attention", "a.py:A", f"{here}/a.py:make")
    assert found.complaints == ()


def test_a_layer_named_twice_is_one_however_its_path_is_written(here):
    assert parse(["--layer", "a.py:A", "--layer", "./parts/../a.py:A"]).specs == ("a.py:A",)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--layer", "gone.py:A"], "there is no file gone.py in "),
        (["--layer", "a.py"], "write a.py:NAME"),
        (["--layer", "a.py:"], "write a.py:NAME"),
        (["--layer", "a.py:1A"], "'1A' in 'a.py:1A' cannot be the name"),
        (["--layer", "os:system"], "must be a Python file and a name in it"),
        (["--layer"], "must be a Python file and a name in it"),
        (["--layers", "a.py:A"], "'--layers' is no argument of this page"),
    ],
)
def test_a_bad_argument_is_one_sentence_and_costs_itself_only(here, arguments, sentence):
    found = parse(["--layer", "a.py:Good", *arguments])
    assert found.specs == ("a.py:Good",)
    assert sentence in found.complaints[0]
    assert "\n" not in found.complaints[0]


def test_only_layers_of_ones_own_can_be_unregistered():
    layers = Layers(specs=("a.py:A",))
    assert layers.unregistered(["custom", "a.py:A", "b.py:B", "nonsense"]) == ("b.py:B",)


def test_a_layer_has_a_name_and_a_file_and_a_built_in_one_has_a_name():
    assert (name_of("parts/b.py:B.C"), file_of("parts/b.py:B.C")) == ("B.C", "parts/b.py")
    assert (name_of("custom-fused"), file_of("custom-fused")) == ("custom-fused", "")


def test_a_compiled_layer_is_named_as_such_and_has_the_file_of_the_layer_within():
    assert (name_of("compiled:custom"), file_of("compiled:custom")) == ("compiled:custom", "")
    assert (name_of("compiled:b.py:B.C"), file_of("compiled:b.py:B.C")) == ("compiled:B.C", "b.py")


def test_a_name_that_two_layers_share_is_told_in_full():
    assert names_of(["custom", "a.py:A", "b.py:A", "b.py:B", "a.py:A"]) == {
        **{"custom": "custom", "a.py:A": "a.py:A", "b.py:A": "b.py:A", "b.py:B": "B"}
    }


def test_the_stamp_of_a_layer_changes_with_its_file_and_with_what_it_imports(here):
    (here / "a.py").write_text("import helper\n")
    (here / "helper.py").write_text("x = 1\n")
    first = stamp("a.py:A")
    assert stamp("a.py:A") == first
    os.utime(here / "helper.py", ns=(1, 1))
    second = stamp("a.py:A")
    os.utime(here / "a.py", ns=(1, 1))
    third = stamp("a.py:A")
    assert len({first, second, third}) == 3
    (here / "a.py").unlink()
    assert stamp("a.py:A") == stamp("custom") == ()


def test_layers_of_ones_own_look_neither_like_each_other_nor_like_the_four():
    names = ["custom", "custom-fused", "official", "official-fused", "a.py:A", "a.py:B", "b.py:C", "b.py:D"]
    styles = [style_of(name, position) for position, name in enumerate(names)]
    assert len({(style.color, style.dash, style.symbol) for style in styles}) == len(names)
    assert not {style.color for style in styles[:4]} & {style.color for style in styles[4:]}


def test_every_contender_of_ours_compiled_or_not_has_a_look_of_its_own():
    names = [prefix + name for name in REFERENCES for prefix in ("", COMPILED)]
    styles = {name: style_of(name, 0) for name in names}
    assert len({(style.color, style.dash, style.symbol) for style in styles.values()}) == len(names)
    assert all(styles[name].color == styles[COMPILED + name].color for name in REFERENCES)
