"""Presets: ready answers to every control that decides what is measured and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard import session

CUSTOM = "custom"

# Every control's value in the quick preset, which is what a bare URL means; the contenders are all there are.
DEFAULTS: dict[str, Any] = {
    session.BATCH_SIZE: "1, 4",
    session.SEQ_LEN: "64, 256",
    session.NUM_HEADS: "4, 8",
    session.WIDTH_KIND: "d_model",
    session.D_MODEL: 512,
    session.HEAD_DIM: 64,
    session.DTYPE: ["float32"],
    session.MODE: ["inference"],
    session.BIAS: ["no"],
    session.CAUSAL: ["no"],
    session.REPLICATES: 1,
    session.TIME_BUDGET: 0.2,
    session.HEAP: "pinned",
    session.QUIET_WAIT: 60.0,
    session.THREADS: None,
    session.SEED: 42,
}

# What each preset changes; the estimate beside the button says what it takes on this machine.
PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    "standard": {
        session.SEQ_LEN: "128, 256, 512",
        session.REPLICATES: 5,
        session.TIME_BUDGET: 0.3,
    },
    "long": {
        session.BATCH_SIZE: "1, 4, 8",
        session.SEQ_LEN: "128, 256, 512, 1024",
        session.NUM_HEADS: "4, 8, 16",
        session.REPLICATES: 8,
        session.TIME_BUDGET: 0.5,
    },
}

# Which layers are measured, where, with which seed and how patiently does not make a preset another one.
_FREE = {session.THREADS, session.SEED, session.HEAD_DIM, session.QUIET_WAIT}


def values_of(preset: str) -> dict[str, Any]:
    """The controls' values in a preset."""
    values = {**DEFAULTS, **PRESETS[preset]}
    return {name: value for name, value in values.items() if name not in _FREE}


def matching(values: Mapping[str, Any]) -> str:
    """The preset that the controls' values are, or `custom`; a control that is not there yet has its default."""
    for preset in PRESETS:
        wanted = values_of(preset)
        if all(_plain(values.get(name, DEFAULTS[name])) == _plain(value) for name, value in wanted.items()):
            return preset
    return CUSTOM


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.replace(" ", "")
    return sorted(value) if isinstance(value, list) else value
