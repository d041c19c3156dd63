"""The ceilings of a run: for how long they are measured, and how those of several moments are kept with it.

They are measured in the child as a run begins and as it ends: `environment["ceilings"]` holds the best of all, by the
names `matmul_gflop_per_s` (by element type) and `copy_gb_per_s`, and under `measured` what each moment gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEY = "ceilings"
# Seconds for one moment of two: a small part of a short sweep, and no more than is of use in a long one.
SHARE = 0.03
MIN_SECONDS = 0.1
MAX_SECONDS = 1.0
# GFLOP/s, GB/s: what lies outside was not measured, and may be no number to reckon with.
_SLOWEST, _FASTEST = 1e-9, 1e15


def ceilings_seconds(sweep_s: float) -> float:
    """Seconds to spend on the ceilings, each time, in a sweep that takes `sweep_s`."""
    return min(MAX_SECONDS, max(MIN_SECONDS, SHARE * sweep_s))


def with_ceilings(environment: Mapping[str, Any], found: Mapping[str, Any], measured_at: str) -> dict[str, Any]:
    """The environment of a run with what was found at one more moment: of each ceiling the best stands.

    Args:
        environment: the run's, with or without ceilings.
        found: as the measuring child answers; what it could not measure is None, and nothing at all an empty mapping.
        measured_at: the moment, as text.
    """
    kept = _mapping(environment.get(KEY))
    earlier = kept.get("measured")
    rates, found_rates = _mapping(kept.get("matmul_gflop_per_s")), _mapping(found.get("matmul_gflop_per_s"))
    best = {
        "matmul_gflop_per_s": {
            name: _better(rates.get(name), found_rates.get(name)) for name in {**rates, **found_rates}
        },
        "copy_gb_per_s": _better(kept.get("copy_gb_per_s"), found.get("copy_gb_per_s")),
        "measured": [*(earlier if isinstance(earlier, list) else []), {"measured_at": measured_at, **found}],
    }
    return {**environment, KEY: best}


def kept_ceilings(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What a resumed run takes over from its environment so far: its ceilings, if it has any."""
    return {KEY: environment[KEY]} if KEY in environment else {}


def ceilings_of(environment: Mapping[str, Any], dtype: str | None) -> tuple[float | None, float | None]:
    """Rate of matrix products of an element type (GFLOP/s) and of copying (GB/s); None where it was not measured."""
    kept = _mapping(environment.get(KEY))
    return _rate(_mapping(kept.get("matmul_gflop_per_s")).get(dtype)), _rate(kept.get("copy_gb_per_s"))


def _better(one: object, other: object) -> float | None:
    return max((rate for rate in (_rate(one), _rate(other)) if rate is not None), default=None)


def _rate(value: object) -> float | None:
    # From a file that someone may have edited.
    if isinstance(value, bool) or not isinstance(value, int | float) or not _SLOWEST <= value <= _FASTEST:
        return None
    return float(value)


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
