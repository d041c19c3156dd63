"""The controls of the operators' view: whose, and at which point; every value in the URL, the first ones from a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import address, layer_notices, sample_panel, session
from dashboard.layers import Layers
from dashboard.live_checks import Machine
from dashboard.snippets import profile_arguments
from profiling.layers import COMPILED, find_layer, inner_of, is_compiled, is_layer
from profiling.runs import Run
from profiling.settings import HEAPS, OFFICIAL, REFERENCES, reference_of
from profiling.workload import DTYPES, MODES, Grid, GridError, Workload

# What a control holds → the field of a workload that it is.
FIELDS = {
    session.OPERATORS_BATCH_SIZE: "batch_size",
    session.OPERATORS_SEQ_LEN: "seq_len",
    session.OPERATORS_NUM_HEADS: "num_heads",
    session.OPERATORS_D_MODEL: "d_model",
    session.OPERATORS_DTYPE: "dtype",
    session.OPERATORS_MODE: "mode",
    session.OPERATORS_BIAS: "bias",
    session.OPERATORS_CAUSAL: "causal",
}
SEED = 42


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    """What the controls begin with: a run's point and contenders, or, without a run, what a sweep would begin with.

    Attributes:
        workload: the point, with the device, the threads and the seed, which are no controls.
        contenders: whom to choose from.
        pair: the two that are chosen at first.
        reference: what layers of one's own are compared with.
        heap: as in the run.
        threads: None where torch chooses.
        left_out: contenders of the run that may not run here.
    """

    workload: Workload
    contenders: tuple[str, ...] = tuple(REFERENCES)
    pair: tuple[str, str] = ("custom", "official")
    reference: str = OFFICIAL[0]
    heap: str = HEAPS[0]
    threads: int | None = None
    left_out: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorWish:
    """Which two contenders to profile, and where, or the one sentence that says why it cannot be."""

    contenders: tuple[str, str]
    arguments: tuple[str, ...] = ()
    workload: Workload | None = None
    error: str = ""


def start_of(run: Run | None, table: pd.DataFrame | None, layers: Layers, machine: Machine | None) -> Start:
    """What the controls begin with, for a run and its table; None where there is none.

    A layer of one's own is offered where it was named when this server was started, however the run calls it.
    """
    if run is None:
        found = machine or Machine(device="auto", description="", threads=0, torch_version="", devices=())
        workload = next(Grid(batch_size=(1,), seq_len=(512,), num_heads=(8,), seed=SEED).workloads(device=found.device))
        options = (*layers.specs, *REFERENCES)
        return Start(workload=workload, contenders=options, pair=_first_pair(options, OFFICIAL[0]))
    names = {name: _registered(name, run, layers) for name in run.settings.contenders}
    here = [name for name in names.values() if name is not None]
    device = run.device if machine is None or run.device in machine.devices else machine.device
    return Start(
        workload=dataclasses.replace(_slowest(run, table), device=device),
        contenders=tuple(dict.fromkeys([*here, *layers.specs, *REFERENCES])),
        pair=_first_pair(here or REFERENCES, run.settings.reference),
        reference=run.settings.reference,
        heap=run.settings.heap,
        threads=run.threads,
        left_out=tuple(name for name, found in names.items() if found is None),
    )


def point_of(run: Run, axes: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some axes' values that are in the run's grid, as they are there."""
    known = {
        axis: next((own for own in getattr(run.grid, axis, ()) if own == value), None) for axis, value in axes.items()
    }
    return {axis: value for axis, value in known.items() if value is not None}


def show(start: Start, chosen: Mapping[str, Any]) -> OperatorWish:
    """Draws the controls and returns what they ask for.

    Args:
        start: what they begin with.
        chosen: axes of another point to begin with, say the one whose samples were looked at; the URL comes before it.
    """
    address.clean()
    notices = st.container()
    for key, field in FIELDS.items():
        if field in chosen and key not in st.session_state and key not in st.query_params:
            st.session_state[key] = chosen[field]
    for key in (session.OPERATORS_ONE, session.OPERATORS_OTHER):
        layer_notices.remember_unregistered(key)
    _contender("Contender", session.OPERATORS_ONE, start, start.pair[0], "Whose operators; one of your own, or ours.")
    _contender("Next to", session.OPERATORS_OTHER, start, start.pair[1], "Differences are the first minus this one.")
    row = st.container(horizontal=True, gap="small")
    _size(row, "Batch size", session.OPERATORS_BATCH_SIZE, start, "Sequences per call.")
    _size(row, "Sequence length", session.OPERATORS_SEQ_LEN, start, "Tokens per sequence.")
    row = st.container(horizontal=True, gap="small")
    _size(row, "Heads", session.OPERATORS_NUM_HEADS, start, "Attention heads; they must divide d_model.")
    _size(row, "d_model", session.OPERATORS_D_MODEL, start, "Channels per token.")
    row = st.container(horizontal=True, gap="small")
    _choice(row, "Element type", DTYPES, session.OPERATORS_DTYPE, start, "Of weights and input.")
    _choice(row, "Mode", MODES, session.OPERATORS_MODE, start, "*training*: forward and backward.")
    row = st.container(horizontal=True, gap="medium")
    _switch(row, "Bias", session.OPERATORS_BIAS, start, "Whether the projections have biases.")
    _switch(row, "Causal", session.OPERATORS_CAUSAL, start, "Whether a token sees only itself and earlier ones.")
    with notices:
        address.show()
    return wish(st.session_state, start)


def wish(values: Any, start: Start) -> OperatorWish:
    """What the values of the controls ask for, validated again: they may come from a URL."""
    keys = (session.OPERATORS_ONE, session.OPERATORS_OTHER)
    one, other = (
        chosen if (chosen := values.get(key)) in start.contenders else first
        for key, first in zip(keys, start.pair, strict=True)
    )
    try:
        if one == other:
            raise GridError("contender must be another than the one next to it")
        workload = _workload(values, start)
    except GridError as error:
        return OperatorWish(contenders=(one, other), error=str(error))
    reference = next((name for name in (other, one) if name in OFFICIAL), start.reference)
    words = profile_arguments(workload, (one, other), reference=reference, heap=start.heap, threads=start.threads)
    return OperatorWish(contenders=(one, other), arguments=tuple(words), workload=workload)


def _workload(values: Any, start: Start) -> Workload:
    fields = {name: values.get(key, getattr(start.workload, name)) for key, name in FIELDS.items()}
    for name in ("batch_size", "seq_len", "num_heads", "d_model"):
        if fields[name] is None:
            raise GridError(f"{name} must be a whole number of at least 1, not empty")
    axes = {name: (value,) for name, value in fields.items() if name != "d_model"}
    grid = Grid(**axes, d_model=fields["d_model"], seed=start.workload.seed)
    workload = next(grid.workloads(device=start.workload.device, threads=start.workload.threads))
    if workload.invalid_reason:
        raise GridError(workload.invalid_reason)
    return workload


def _slowest(run: Run, table: pd.DataFrame | None) -> Workload:
    """The run's slowest point; where none has a time, the first one that can be."""
    axes = {} if table is None else point_of(run, sample_panel.default_point(run, table))
    first = next(run.grid.workloads(device=run.device, threads=run.threads))
    points = run.grid.workloads(device=run.device, threads=run.threads)
    if axes:
        width = run.grid.width(axes.get("num_heads", first.num_heads))
        return dataclasses.replace(first, **axes, d_model=width)
    return next((point for point in points if point.invalid_reason is None), first)


def _registered(contender: str, run: Run, layers: Layers) -> str | None:
    """What a contender of a run is called here; None for a layer of one's own that nobody has named here."""
    if not is_layer(contender) or inner_of(contender) in layers.specs:
        return contender
    place = run.settings.layers.get(contender)
    for spec in layers.specs:
        try:
            if find_layer(spec).spec == place:
                return (COMPILED if is_compiled(contender) else "") + spec
        except GridError:  # its file has gone since
            continue
    return None


def _first_pair(contenders: Sequence[str] | Mapping[str, Any], reference: str) -> tuple[str, str]:
    """The first contender that is compared with something, one's own layers before others, and with what."""
    for name in sorted(contenders, key=lambda each: not is_layer(each)):
        compared = reference_of(name, reference)
        if compared is not None:
            return name, compared
    return "custom", "official"


def _contender(label: str, key: str, start: Start, first: str, help_text: str) -> None:
    options = list(start.contenders)
    st.selectbox(
        label,
        options,
        index=options.index(first) if first in options else 0,
        key=key,
        bind="query-params",
        on_change=layer_notices.forget_unregistered,
        help=help_text,
    )


def _size(place: Any, label: str, key: str, start: Start, help_text: str) -> None:
    value = getattr(start.workload, FIELDS[key])
    place.number_input(label, min_value=1, value=value, step=1, key=key, bind="query-params", help=help_text)


def _choice(place: Any, label: str, options: Sequence[str], key: str, start: Start, help_text: str) -> None:
    index = options.index(getattr(start.workload, FIELDS[key]))
    place.selectbox(label, options, index=index, key=key, bind="query-params", help=help_text)


def _switch(place: Any, label: str, key: str, start: Start, help_text: str) -> None:
    place.toggle(label, value=getattr(start.workload, FIELDS[key]), key=key, bind="query-params", help=help_text)
