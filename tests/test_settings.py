from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.settings import CONTENDERS, REFERENCES, SweepSettings
from profiling.workload import GridError


@given(
    st.builds(
        SweepSettings,
        contenders=st.lists(st.sampled_from(CONTENDERS), min_size=1, unique=True).map(tuple),
        replicates=st.integers(1, 50),
        time_budget_s=st.floats(1e-3, 1e3),
        time_limit_s=st.none() | st.floats(1, 1e5),
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


def test_a_reference_is_a_contender_without_a_reference() -> None:
    assert all(REFERENCES[reference] is None for reference in REFERENCES.values() if reference is not None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"contenders": ()}, "contenders must hold at least one name"),
        ({"contenders": ("mine",)}, "contenders must be among custom, custom-fused, official, official-fused, or a"),
        ({"contenders": ("custom", "custom")}, "contenders must name each contender once"),
        ({"replicates": 0}, "replicates must be a whole number of at least 1, not 0"),
        ({"time_budget_s": 0}, "time_budget_s must be a number of seconds above 0, not 0"),
        ({"time_budget_s": math.nan}, "time_budget_s must be a number of seconds above 0, not nan"),
        ({"time_budget_s": math.inf}, "time_budget_s must be a number of seconds above 0, not inf"),
        ({"time_budget_s": "1"}, "time_budget_s must be a number of seconds above 0, not '1'"),
        ({"time_limit_s": -1.0}, "time_limit_s must be a number of seconds above 0, not -1.0"),
        # Longer than a queue can wait.
        ({"time_limit_s": 1e300}, "time_limit_s must be at most 1,000,000 seconds"),
        ({"heap": "big"}, "heap must be one of pinned, as-is, not 'big'"),
    ],
)
def test_settings_that_break_a_rule_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(GridError) as caught:
        SweepSettings(**fields)
    assert words in str(caught.value)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(GridError, match="settings have no field 'budget'"):
        SweepSettings.from_dict({"budget": 1})
