from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_layers import write_layer

from profiling.settings import CONTENDERS, OFFICIAL, REFERENCES, SweepSettings, reference_of
from profiling.workload import GridError


@given(
    st.builds(
        SweepSettings,
        contenders=st.lists(st.sampled_from(CONTENDERS), min_size=1, unique=True).map(tuple),
        replicates=st.integers(1, 50),
        time_budget_s=st.floats(1e-3, 1e3),
        time_limit_s=st.none() | st.floats(1, 1e5),
        quiet_wait_s=st.floats(0, 1e5),
        heap=st.sampled_from(["pinned", "as-is"]),
    )
)
def test_settings_survive_the_way_through_json(settings: SweepSettings) -> None:
    assert SweepSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def test_a_missing_reference_is_added_after_what_was_asked_for() -> None:
    assert SweepSettings(contenders=("custom-fused",)).contenders == ("custom-fused", "official-fused")
    assert SweepSettings(contenders=("official",)).contenders == ("official",)


def test_the_references_are_those_that_someone_is_compared_with() -> None:
    assert SweepSettings(contenders=("custom", "official", "official-fused")).references == ("official",)
    assert SweepSettings(contenders=("official-fused",)).references == ()


def test_what_contenders_of_ours_are_compared_with_is_compared_with_nothing() -> None:
    assert all(REFERENCES[reference] is None for reference in REFERENCES.values() if reference is not None)


def test_the_fast_path_is_asked_for_by_name_and_brings_the_default_call() -> None:
    assert "official-fastpath" not in SweepSettings().contenders
    assert SweepSettings(contenders=("official-fastpath",)).contenders == ("official-fastpath", "official")


def test_the_references_of_references_are_added_and_are_references(tmp_path: Path) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    settings = SweepSettings(contenders=(name,), reference="official-fastpath")
    assert settings.contenders == (name, "official-fastpath", "official")
    assert settings.references == ("official-fastpath", "official")


@pytest.mark.parametrize(
    ("contender", "reference"),
    [
        ("compiled:custom", "official"),
        ("compiled:custom-fused", "official-fused"),
        ("compiled:official", "official"),
        ("compiled:official-fused", "official-fused"),
        ("compiled:official-fastpath", "official-fastpath"),
    ],
)
def test_a_compiled_layer_is_compared_as_the_layer_is_and_an_official_call_with_itself(
    contender: str, reference: str
) -> None:
    assert reference_of(contender, "official-fused") == reference
    settings = SweepSettings(contenders=(contender,))
    assert settings.contenders[:2] == (contender, reference)
    assert SweepSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def test_a_layer_of_ones_own_and_its_compiled_self_are_two_contenders_of_one_file(tmp_path: Path) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    settings = SweepSettings(contenders=(name, f"compiled:{name}"), reference="official-fused")
    assert settings.contenders == (name, f"compiled:{name}", "official-fused")
    assert settings.layers == {name: name, f"compiled:{name}": name}
    assert settings.reference_of(f"compiled:{name}") == "official-fused"
    assert len(set(settings.layer_files().values())) == 1
    assert SweepSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"contenders": ()}, "contenders must hold at least one name"),
        ({"contenders": ("mine",)}, "contenders must be among custom, custom-fused, official, official-fused, "),
        ({"contenders": ("custom", "custom")}, "contenders must name each contender once"),
        ({"replicates": 0}, "replicates must be a whole number of at least 1, not 0"),
        ({"time_budget_s": 0}, "time_budget_s must be a number of seconds above 0, not 0"),
        ({"time_budget_s": math.nan}, "time_budget_s must be a number of seconds above 0, not nan"),
        ({"time_budget_s": math.inf}, "time_budget_s must be a number of seconds above 0, not inf"),
        ({"time_budget_s": "1"}, "time_budget_s must be a number of seconds above 0, not '1'"),
        ({"quiet_wait_s": -0.5}, "quiet_wait_s must be a number of seconds of 0 or more, not -0.5"),
        ({"quiet_wait_s": False}, "quiet_wait_s must be a number of seconds of 0 or more, not False"),
        ({"quiet_wait_s": 1e300}, "quiet_wait_s must be at most 1,000,000 seconds"),
        ({"time_limit_s": -1.0}, "time_limit_s must be a number of seconds above 0, not -1.0"),
        # Longer than a queue can wait.
        ({"time_limit_s": 1e300}, "time_limit_s must be at most 1,000,000 seconds"),
        ({"heap": "big"}, "heap must be one of pinned, as-is, not 'big'"),
        ({"reference": "custom"}, "reference must be one of official, official-fused, official-fastpath, not"),
        ({"contenders": ("none.py:Mine",)}, "there is no file none.py in "),
        ({"contenders": ("mine.py",)}, "a layer needs a name in its file"),
        ({"contenders": (5,)}, "contenders must be among"),
        ({"contenders": ("compiled:",)}, "each of them also once as compiled:NAME, not 'compiled:'"),
        ({"contenders": ("compiled:compiled:custom",)}, "once as compiled:NAME, not 'compiled:compiled:custom'"),
        ({"contenders": ("compiled:compiled:a.py:X",)}, "once as compiled:NAME, not 'compiled:compiled:a.py:X'"),
        ({"contenders": ("compiled:nonsense",)}, "contenders must be among"),
        ({"contenders": ("compiled:none.py:Mine",)}, "there is no file none.py in "),
        ({"contenders": ("compiled:mine.py",)}, "a layer needs a name in its file"),
        ({"contenders": ("compiled:custom", "compiled:custom")}, "contenders must name each contender once"),
        ({"reference": "compiled:official"}, "reference must be one of"),
        ({"layers": [1]}, "layers must map each layer of one's own to its place, not [1]"),
        (
            {"contenders": ("a.py:X",), "layers": {"a.py:X": "/elsewhere/a.py:Y"}},
            "layers must name the same layer as the contender 'a.py:X', not '/elsewhere/a.py:Y'",
        ),
    ],
)
def test_settings_that_break_a_rule_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(GridError) as caught:
        SweepSettings(**fields)
    assert words in str(caught.value)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(GridError, match="settings have no field 'budget'"):
        SweepSettings.from_dict({"budget": 1})


def test_a_layer_of_ones_own_keeps_its_name_and_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_layer(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = SweepSettings(contenders=("mine.py:Right", "custom"))
    assert settings.contenders == ("mine.py:Right", "custom", "official")
    assert settings.layers == {"mine.py:Right": f"{path}:Right"}
    monkeypatch.chdir("/")
    path.unlink()  # a run outlives the file that it measured
    restored = SweepSettings.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert restored == settings
    assert hash(restored) == hash(settings)
    assert restored.layer_files()["mine.py:Right"].path == path


def test_settings_stored_before_there_were_layers_can_be_read() -> None:
    stored = {name: value for name, value in SweepSettings().to_dict().items() if name not in ("layers", "reference")}
    assert SweepSettings.from_dict(stored) == SweepSettings()


def test_one_file_under_two_names_is_one_contender_and_two_files_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_layer(tmp_path / "a")
    write_layer(tmp_path / "b")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GridError, match="contenders must name each contender once"):
        SweepSettings(contenders=("a/mine.py:Right", "./a/mine.py:Right"))
    assert len(SweepSettings(contenders=("a/mine.py:Right", "b/mine.py:Right")).layers) == 2


@pytest.mark.parametrize("reference", OFFICIAL)
def test_the_reference_of_ones_own_layers_is_chosen_and_added(reference: str, tmp_path: Path) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    settings = SweepSettings(contenders=(name, "custom-fused"), reference=reference)
    assert settings.reference_of(name) == reference
    assert settings.reference_of("custom-fused") == "official-fused"
    assert {reference, "official-fused"} <= set(settings.references)
    # The fast path is compared itself, with the default call.
    assert ("official" in settings.references) == (reference != "official-fused")


def test_every_contender_has_a_reference_or_is_one() -> None:
    assert {name: reference_of(name) for name in REFERENCES} == REFERENCES
    assert set(CONTENDERS) < set(REFERENCES)
    assert {name for name, reference in REFERENCES.items() if reference is None} < set(OFFICIAL)
    assert reference_of("mine.py:Mine") == "official"
    with pytest.raises(GridError, match="contenders must be among"):
        reference_of("mine")
