"""The controls of the operators' view: whose, and at which point; every value in the URL, the first ones from a run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from dashboard import address, layer_notices, session
from dashboard.layers import Layers
from dashboard.live_checks import Machine
from dashboard.snippets import profile_arguments
from profiling.layers import COMPILED, find_layer, inner_of, is_compiled, is_layer
from profiling.quoted import quoted
from profiling.runs import Run
from profiling.settings import HEAPS, OFFICIAL, REFERENCES, reference_of
from profiling.workload import DTYPES, MODES, Grid, GridError, Workload

# What a control holds → the field of a workload that it is, and what it holds where neither URL nor run say.
FIELDS: dict[str, tuple[str, Any]] = {
    session.OPERATORS_BATCH_SIZE: ("batch_size", 1),
    session.OPERATORS_SEQ_LEN: ("seq_len", 512),
    session.OPERATORS_NUM_HEADS: ("num_heads", 8),
    session.OPERATORS_D_MODEL: ("d_model", 512),
    session.OPERATORS_DTYPE: ("dtype", "float32"),
    session.OPERATORS_MODE: ("mode", "inference"),
    session.OPERATORS_BIAS: ("bias", False),
    session.OPERATORS_CAUSAL: ("causal", False),
}
PAIR = {session.OPERATORS_ONE: "custom", session.OPERATORS_OTHER: "official"}
SIZES = ("batch_size", "seq_len", "num_heads", "d_model")
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


def start_of(run: Run | None, axes: Mapping[str, Any], layers: Layers, machine: Machine | None) -> Start:
    """What the controls begin with.

    A layer of one's own is offered where it was named when this server was started, however the run calls it.

    Args:
        run: the run to begin with; None where there is none.
        axes: at which point of it; those left out are at its first one.
        layers: those that were named when this server was started.
        machine: what torch has found here; None while that is not known.
    """
    if run is None:
        device = machine.device if machine else "auto"
        sizes: dict[str, Any] = dict(FIELDS.values())
        workload = Workload(**sizes, device=device, threads=1, seed=SEED)
        options = (*layers.specs, *REFERENCES)
        return Start(workload=workload, contenders=options, pair=_first_pair(options, OFFICIAL[0]))
    names = {name: _registered(name, run, layers) for name in run.settings.contenders}
    here = [name for name in names.values() if name is not None]
    device = run.device if machine is None or run.device in machine.devices else machine.device
    return Start(
        workload=dataclasses.replace(point_of(run, axes), device=device),
        contenders=tuple(dict.fromkeys([*here, *layers.specs, *REFERENCES])),
        pair=_first_pair(here, run.settings.reference),
        reference=run.settings.reference,
        heap=run.settings.heap,
        threads=run.threads,
        left_out=tuple(name for name, found in names.items() if found is None),
    )


def point_of(run: Run, axes: Mapping[str, Any]) -> Workload:
    """The point of a run's grid at those values of its axes, the first one where they say nothing."""
    first = next(run.grid.workloads(device=run.device, threads=run.threads))
    known: dict[str, Any] = {axis: own for axis in axes for own in getattr(run.grid, axis) if own == axes[axis]}
    return dataclasses.replace(first, **known, d_model=run.grid.width(known.get("num_heads", first.num_heads)))


def query_of(workload: Workload, pair: tuple[str, str]) -> dict[str, str]:
    """What an address holds that opens the view with that point and those two."""
    values = {key: getattr(workload, field) for key, (field, _) in FIELDS.items()}
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
    return {session.OPERATORS_ONE: pair[0], session.OPERATORS_OTHER: pair[1], **texts}


def changed_of(workload: Workload, pair: tuple[str, str]) -> dict[str, str]:
    """The same without what the controls hold anyway: Streamlit takes each such value out, a step in the history each.

    All of it where nothing else is left: an address that names none of the controls leaves the say to the run.
    """
    whole = query_of(workload, pair)
    defaults = {key: default for key, (_, default) in FIELDS.items()} | PAIR
    held = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in defaults.items()}
    return {key: text for key, text in whole.items() if text != held[key]} or whole


def show(start: Start) -> OperatorWish:
    """Draws the controls and returns what they ask for; an address that names one of them has the say in all."""
    address.clean()
    notices = st.container()
    for key in PAIR:
        layer_notices.remember_unregistered(key)
    _fill(start)
    _contender("Contender", session.OPERATORS_ONE, start, "Whose operators; one of your own, or ours.")
    _contender("Next to", session.OPERATORS_OTHER, start, "Differences are the first one's time minus this one's.")
    row = st.container(horizontal=True, gap="small")
    _size(row, "Batch size", session.OPERATORS_BATCH_SIZE, "Sequences per call.")
    _size(row, "Sequence length", session.OPERATORS_SEQ_LEN, "Tokens per sequence.")
    row = st.container(horizontal=True, gap="small")
    _size(row, "Heads", session.OPERATORS_NUM_HEADS, "Attention heads; they must divide d_model.")
    _size(row, "d_model", session.OPERATORS_D_MODEL, "Channels per token.")
    row = st.container(horizontal=True, gap="small")
    _choice(row, "Element type", DTYPES, session.OPERATORS_DTYPE, "Of weights and input.")
    _choice(row, "Mode", MODES, session.OPERATORS_MODE, "*training*: forward and backward.")
    row = st.container(horizontal=True, gap="medium")
    _switch(row, "Bias", session.OPERATORS_BIAS, "Whether the projections have biases.")
    _switch(row, "Causal", session.OPERATORS_CAUSAL, "Whether a token sees only itself and earlier ones.")
    with notices:
        address.show()
    return wish(st.session_state, start)


def wish(values: Any, start: Start) -> OperatorWish:
    """What the values of the controls ask for, validated again: they may come from a URL."""
    one, other = (values.get(key, default) for key, default in PAIR.items())
    one, other = (name if name in start.contenders else PAIR[key] for key, name in zip(PAIR, (one, other), strict=True))
    try:
        if one == other:
            raise GridError(f"the two contenders must differ, and both are {quoted(one)}")
        workload = _workload(values, start)
    except GridError as error:
        return OperatorWish(contenders=(one, other), error=str(error))
    reference = next((name for name in (other, one) if name in OFFICIAL), start.reference)
    words = profile_arguments(workload, (one, other), reference=reference, heap=start.heap, threads=start.threads)
    return OperatorWish(contenders=(one, other), arguments=tuple(words), workload=workload)


def _workload(values: Any, start: Start) -> Workload:
    fields = {name: values.get(key, default) for key, (name, default) in FIELDS.items()}
    for name in SIZES:
        if fields[name] is None:
            raise GridError(f"{name} must be a whole number of at least 1, not empty")
    axes: dict[str, Any] = {name: (value,) for name, value in fields.items() if name != "d_model"}
    grid = Grid(**axes, d_model=fields["d_model"], seed=start.workload.seed)
    workload = next(grid.workloads(device=start.workload.device, threads=start.workload.threads))
    if workload.invalid_reason:
        raise GridError(workload.invalid_reason)
    return workload


def _fill(start: Start) -> None:
    """Puts what the view begins with into its controls: at first, and after another point was looked at in Samples."""
    keys = (*FIELDS, *PAIR)
    looked_at = st.session_state.get(session.CHOSEN_POINT)
    if session.OPERATORS_BEGAN in st.session_state and st.session_state[session.OPERATORS_BEGAN] == looked_at:
        for key in PAIR:
            if st.session_state.get(key, PAIR[key]) not in start.contenders:  # another run's
                del st.session_state[key]
        return
    st.session_state[session.OPERATORS_BEGAN] = looked_at
    for key in keys:
        st.session_state.pop(key, None)
    if any(key in st.query_params for key in keys):
        return
    defaults = {key: default for key, (_, default) in FIELDS.items()} | PAIR
    first = {key: getattr(start.workload, field) for key, (field, _) in FIELDS.items()}
    texts = query_of(start.workload, start.pair)
    for key, value in (first | dict(zip(PAIR, start.pair, strict=True))).items():
        st.session_state[key] = value
        if value != defaults[key]:  # a control that is not there yet does not bring its value into the address
            with contextlib.suppress(StreamlitAPIException):  # and one that is does
                st.query_params[key] = texts[key]


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


def _first_pair(contenders: Sequence[str], reference: str) -> tuple[str, str]:
    """The first contender that is compared with something, one's own layers before others, and with what."""
    for name in sorted(contenders, key=lambda each: not is_layer(each)):
        compared = reference_of(name, reference)
        if compared is not None:
            return name, compared
    return "custom", "official"


def _contender(label: str, key: str, start: Start, help_text: str) -> None:
    options = list(start.contenders)
    st.selectbox(
        label,
        options,
        index=options.index(PAIR[key]),
        key=key,
        bind="query-params",
        on_change=layer_notices.forget_unregistered,
        help=help_text,
    )


def _size(place: Any, label: str, key: str, help_text: str) -> None:
    place.number_input(label, min_value=1, value=FIELDS[key][1], step=1, key=key, bind="query-params", help=help_text)


def _choice(place: Any, label: str, options: Sequence[str], key: str, help_text: str) -> None:
    index = options.index(FIELDS[key][1])
    place.selectbox(label, options, index=index, key=key, bind="query-params", help=help_text)


def _switch(place: Any, label: str, key: str, help_text: str) -> None:
    place.toggle(label, value=FIELDS[key][1], key=key, bind="query-params", help=help_text)
