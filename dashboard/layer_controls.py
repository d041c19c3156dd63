"""The controls of the view for one layer: which layer, at which shape, called how; every value in the URL."""

from __future__ import annotations

import dataclasses
from typing import Any

import streamlit as st

from dashboard import address, layer_notices, session
from dashboard.layers import BUILT_IN, Layers
from dashboard.live_checks import Machine
from profiling.workload import DTYPES, Grid, GridError, Workload

DEFAULTS: dict[str, Any] = {
    session.LAYER_D_MODEL: 64,
    session.LAYER_NUM_HEADS: 4,
    session.LAYER_BATCH_SIZE: 2,
    session.LAYER_SEQ_LEN: 8,
    session.LAYER_DTYPE: "float32",
    session.LAYER_CAUSAL: False,
    session.LAYER_BATCH_FIRST: True,
}
SEED = 42


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerWish:
    """Which layer to check, where and how, or the one sentence that says why it cannot be."""

    contender: str
    workload: Workload | None = None
    batch_first: bool = True
    error: str = ""


def show(layers: Layers, machine: Machine | None) -> LayerWish:
    """Draws the controls and returns what they ask for."""
    address.clean()
    notices = st.container()
    options = options_of(layers)
    layer_notices.remember_unregistered(session.LAYER)
    st.selectbox(
        "Layer",
        options,
        key=session.LAYER,
        bind="query-params",
        on_change=layer_notices.forget_unregistered,
        help="One of your own, named where the program was started, or one that comes with it.",
    )
    row = st.container(horizontal=True, gap="small")
    _size(row, "d_model", session.LAYER_D_MODEL, "Channels per token.")
    _size(row, "Heads", session.LAYER_NUM_HEADS, "Attention heads; they must divide d_model.")
    row = st.container(horizontal=True, gap="small")
    _size(row, "Batch size", session.LAYER_BATCH_SIZE, "Sequences per call.")
    _size(row, "Sequence length", session.LAYER_SEQ_LEN, "Tokens per sequence.")
    st.selectbox(
        "Element type", DTYPES, key=session.LAYER_DTYPE, bind="query-params", help="Of the layer's weights and input."
    )
    row = st.container(horizontal=True, gap="medium")
    _switch(row, "Causal", session.LAYER_CAUSAL, "Whether a token sees only itself and earlier ones.")
    _switch(
        row,
        "Batch first",
        session.LAYER_BATCH_FIRST,
        "Whether the layer takes (batch, sequence, channels). Off: it takes (sequence, batch, channels).",
    )
    with notices:
        address.show()
    return wish(st.session_state, layers, machine)


def options_of(layers: Layers) -> tuple[str, ...]:
    """The layers to choose from: one's own first."""
    return (*layers.specs, *BUILT_IN)


def wish(values: Any, layers: Layers, machine: Machine | None) -> LayerWish:
    """What the values of the controls ask for, validated again: they may come from a URL."""
    contender = values.get(session.LAYER)
    if contender not in options_of(layers):
        contender = options_of(layers)[0]
    value = {key: values.get(key, default) for key, default in DEFAULTS.items()}
    batch_first = bool(value[session.LAYER_BATCH_FIRST])
    try:
        workload = _workload(value, machine)
    except GridError as error:
        return LayerWish(contender=contender, batch_first=batch_first, error=str(error))
    if workload.invalid_reason:
        return LayerWish(contender=contender, batch_first=batch_first, error=workload.invalid_reason)
    return LayerWish(contender=contender, workload=workload, batch_first=batch_first)


def _workload(value: dict[str, Any], machine: Machine | None) -> Workload:
    for key in (session.LAYER_D_MODEL, session.LAYER_NUM_HEADS, session.LAYER_BATCH_SIZE, session.LAYER_SEQ_LEN):
        if value[key] is None:
            raise GridError(f"{key.removeprefix('layer_')} must be a whole number of at least 1, not empty")
    grid = Grid(
        d_model=value[session.LAYER_D_MODEL],
        num_heads=(value[session.LAYER_NUM_HEADS],),
        batch_size=(value[session.LAYER_BATCH_SIZE],),
        seq_len=(value[session.LAYER_SEQ_LEN],),
        dtype=(value[session.LAYER_DTYPE],),
        causal=(bool(value[session.LAYER_CAUSAL]),),
        seed=SEED,
    )
    device, threads = (machine.device, machine.threads) if machine else ("cpu", 1)
    return next(grid.workloads(device=device, threads=threads))


def _size(place: Any, label: str, key: str, help_text: str) -> None:
    place.number_input(label, min_value=1, value=DEFAULTS[key], step=1, key=key, bind="query-params", help=help_text)


def _switch(place: Any, label: str, key: str, help_text: str) -> None:
    place.toggle(label, value=DEFAULTS[key], key=key, bind="query-params", help=help_text)
