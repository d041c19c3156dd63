"""The controls: widgets to a grid and the settings of a sweep, with presets, and every value in the URL."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import address, layer_notices, session
from dashboard.layers import Layers
from dashboard.presets import DEFAULTS, PRESETS, matching, values_of
from profiling.charts.formatting import plain
from profiling.layers import COMPILED
from profiling.parsing import parse_sizes, parse_switches
from profiling.quoted import quoted
from profiling.settings import CONTENDERS, HEAPS, OFFICIAL, REFERENCES, SweepSettings
from profiling.workload import DTYPES, MODES, Grid, GridError

SWITCHES = ("no", "yes")
NO_LAYERS = Layers()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wish:
    """What the controls ask for, or the one sentence that says why it cannot be."""

    grid: Grid | None = None
    settings: SweepSettings | None = None
    error: str = ""

    @property
    def argument(self) -> str:
        """The argument that the sentence is about, with which it begins."""
        return self.error.partition(" ")[0]


def show(devices: Sequence[str], layers: Layers) -> Wish:
    """Draws the controls and returns what they ask for. `devices` are the names to choose from, the best first."""
    address.clean(devices)
    notices, presets = st.container(), st.container()
    places = _sizes()
    with st.expander("More settings", expanded=False):
        places |= _rarer(devices, layers)
    with presets:
        _presets()  # after the others, whose values it tells by name
    with notices:
        address.show()
    asked = wish(st.session_state, layers)
    if asked.argument in places:
        places[asked.argument].caption(f":red[{plain(asked.error)}.]")
    return asked


def wish(values: Any, layers: Layers = NO_LAYERS) -> Wish:
    """What the values of the controls ask for, validated again: they may come from a URL."""
    try:
        return Wish(grid=_grid(values), settings=_settings(values, layers))
    except GridError as error:
        return Wish(error=str(error))


def _grid(values: Any) -> Grid:
    kind = _value(values, session.WIDTH_KIND) or "d_model"
    if kind not in ("d_model", "head_dim"):
        raise GridError(f"fixed must be one of d_model, head_dim, not {quoted(kind)}")
    width = _value(values, session.HEAD_DIM if kind == "head_dim" else session.D_MODEL)
    if width is None:
        raise GridError(f"{kind} must be a whole number of at least 1, not empty")
    return Grid(
        batch_size=_sizes_of(values, session.BATCH_SIZE),
        seq_len=_sizes_of(values, session.SEQ_LEN),
        num_heads=_sizes_of(values, session.NUM_HEADS),
        d_model=width if kind == "d_model" else None,
        head_dim=width if kind == "head_dim" else None,
        dtype=_in_order("dtype", _value(values, session.DTYPE), DTYPES),
        mode=_in_order("mode", _value(values, session.MODE), MODES),
        bias=_switches_of(values, session.BIAS),
        causal=_switches_of(values, session.CAUSAL),
        device=values.get(session.DEVICE) or "auto",
        threads=_value(values, session.THREADS),
        seed=_required("seed", _value(values, session.SEED)),
    )


def _settings(values: Any, layers: Layers) -> SweepSettings:
    options = (*REFERENCES, *layers.specs)
    plain_ones = _in_order("contenders", values.get(session.CONTENDERS, (*CONTENDERS, *layers.specs)), options)
    to_compile = _in_order("contenders", values.get(session.COMPILED) or (), options)
    for name in (*plain_ones, *to_compile):
        if name not in options:  # only what was named at the start may run here
            raise GridError(f"contenders must be among {', '.join(options)}, not {quoted(name)}")
    return SweepSettings(
        contenders=(*plain_ones, *(COMPILED + name for name in to_compile)),
        replicates=_required("replicates", _value(values, session.REPLICATES)),
        time_budget_s=_required("time_budget_s", _value(values, session.TIME_BUDGET)),
        quiet_wait_s=_required("quiet_wait_s", _value(values, session.QUIET_WAIT)),
        heap=_value(values, session.HEAP),
        reference=values.get(session.REFERENCE) or OFFICIAL[0],
    )


def _value(values: Any, name: str) -> Any:
    return values.get(name, DEFAULTS[name])


def _sizes_of(values: Any, name: str) -> tuple[int, ...]:
    text = _value(values, name)
    if not isinstance(text, str):
        raise GridError(f"{name} must be whole numbers separated by commas, not {quoted(text)}")
    return parse_sizes(name, text)


def _switches_of(values: Any, name: str) -> tuple[bool, ...]:
    return parse_switches(name, ",".join(_in_order(name, _value(values, name), SWITCHES)))


def _required(name: str, value: Any) -> Any:
    if value is None:
        raise GridError(f"{name} must hold a number, not nothing")
    return value


def _in_order(name: str, chosen: Any, options: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(chosen, list | tuple) or not all(isinstance(each, str) for each in chosen):
        raise GridError(f"{name} must be a list of names, not {quoted(chosen)}")
    return tuple(sorted(chosen, key=lambda each: options.index(each) if each in options else len(options)))


def _presets() -> None:
    chosen = matching({name: st.session_state.get(name, value) for name, value in DEFAULTS.items()})
    st.session_state[session.PRESET] = chosen if chosen in PRESETS else None
    st.segmented_control(
        "Preset",
        list(PRESETS),
        key=session.PRESET,
        on_change=_apply_preset,
        width="stretch",
        help="Fills in the controls below: *quick* is a first impression, *standard* is worth comparing, "
        "*long* is worth publishing. None is marked where your values are those of no preset.",
    )


def _apply_preset() -> None:
    chosen = st.session_state.get(session.PRESET)
    if chosen in PRESETS:
        for name, value in values_of(chosen).items():
            st.session_state[name] = value


def _sizes() -> dict[str, Any]:
    """Draws the sizes; argument → the place for what is wrong with it."""
    row = st.container(horizontal=True, gap="small")
    _list_input(row, "Batch sizes", session.BATCH_SIZE, "Sequences per call, separated by commas.")
    _list_input(row, "Heads", session.NUM_HEADS, "Attention heads, separated by commas; each must divide d_model.")
    places = dict.fromkeys(("batch_size", "num_heads"), st.container())
    _list_input(st, "Sequence lengths", session.SEQ_LEN, "Tokens per sequence, separated by commas.")
    places["seq_len"] = st.container()
    row = st.container(horizontal=True, gap="small", vertical_alignment="bottom")
    kind = row.selectbox(
        "Held fixed",
        ["d_model", "head_dim"],
        key=session.WIDTH_KIND,
        bind="query-params",
        help="While the heads vary, either the layer's width d_model stays and the heads get narrower, "
        "or head_dim stays and the layer gets wider (d_model = heads × head_dim).",
    )
    key = session.HEAD_DIM if kind == "head_dim" else session.D_MODEL
    _number_input(row, key, key, "Channels per token (d_model), or per head (head_dim).")
    return places | dict.fromkeys(("d_model", "head_dim"), st.container())


def _rarer(devices: Sequence[str], layers: Layers) -> dict[str, Any]:
    """Draws what is changed more seldom; argument → the place for what is wrong with it."""
    layer_notices.remember_unregistered(session.CONTENDERS)
    options = [*REFERENCES, *layers.specs]
    st.pills(
        "Contenders",
        options,
        selection_mode="multi",
        default=[*CONTENDERS, *layers.specs],
        key=session.CONTENDERS,
        bind="query-params",
        on_change=layer_notices.forget_unregistered,
        help="Layers to measure; a missing reference is added. *official-fastpath* runs where there is a bias and no "
        "training. Yours, named where the program was started, stand last.",
    )
    st.pills(
        "Also compiled",
        options,
        selection_mode="multi",
        key=session.COMPILED,
        bind="query-params",
        help="Run through torch.compile as contenders of their own, next to the same reference. Compiling takes some "
        "10 to 40 s a point; it is told in a column of its own and is never in the latency.",
    )
    places = {"contenders": st.container()}
    if layers.specs:
        st.segmented_control(
            "Your layers next to",
            OFFICIAL,
            default=OFFICIAL[0],
            key=session.REFERENCE,
            bind="query-params",
            required=True,
            help="What your layers are compared with: *official-fused* where they call scaled_dot_product_attention, "
            "else *official*. The choice alone can make a layer look 2.5 times faster.",
        )
    _choices("Element type", DTYPES, session.DTYPE, "Of weights and input.")
    _choices("Mode", MODES, session.MODE, "*inference*: no gradients. *training*: forward and backward.")
    places |= dict.fromkeys(("dtype", "mode"), st.container())
    left, right = st.columns(2, gap="small")
    with left:
        _choices("Bias", SWITCHES, session.BIAS, "Whether the four projections have biases.")
    with right:
        _choices("Causal", SWITCHES, session.CAUSAL, "Whether a token sees only itself and earlier ones.")
    places |= dict.fromkeys(("bias", "causal"), st.container())
    left, right = st.columns(2, gap="small")
    _number_input(left, "Replicates", session.REPLICATES, "Passes over the grid, each in a fresh process: 1 is quick.")
    right.number_input(
        "Seconds per contender",
        min_value=address.LEAST_BUDGET_S,
        value=DEFAULTS[session.TIME_BUDGET],
        step=0.1,
        format="%.2f",
        key=session.TIME_BUDGET,
        bind="query-params",
        help="Time budget: seconds of timed rounds per contender, point and replicate; at least 5 rounds are timed.",
    )
    _number_input(left, "Threads", session.THREADS, "Threads torch computes with; empty: as many as it chooses.")
    _number_input(right, "Seed", session.SEED, "Of weights and input.", smallest=0)
    left, right = st.columns(2, gap="small", vertical_alignment="bottom")
    left.number_input(
        "Wait for quiet, s",
        min_value=0.0,
        value=DEFAULTS[session.QUIET_WAIT],
        step=10.0,
        format="%.0f",
        key=session.QUIET_WAIT,
        bind="query-params",
        help="Seconds that a run may wait in all for other programs to leave the machine alone; 0: never.",
    )
    right.selectbox(
        "Heap",
        HEAPS,
        key=session.HEAP,
        bind="query-params",
        help="*pinned* keeps freed memory in the process, so that times repeat; *as-is* leaves the allocator alone.",
    )
    names = ("replicates", "time_budget_s", "threads", "seed", "quiet_wait_s", "heap")
    places |= dict.fromkeys(names, st.container())
    if len(devices) > 1:
        st.selectbox("Device", ["auto", *devices], key=session.DEVICE, bind="query-params")
    return places


def _list_input(place: Any, label: str, key: str, help_text: str) -> None:
    place.text_input(label, value=DEFAULTS[key], key=key, bind="query-params", help=help_text)


def _number_input(place: Any, label: str, key: str, help_text: str, smallest: int = 1) -> None:
    place.number_input(
        label,
        min_value=smallest,
        value=DEFAULTS[key],
        step=1,
        key=key,
        bind="query-params",
        placeholder="auto" if DEFAULTS[key] is None else None,
        help=help_text,
    )


def _choices(label: str, options: Sequence[str], key: str, help_text: str) -> None:
    st.pills(
        label,
        options,
        selection_mode="multi",
        default=DEFAULTS[key],
        key=key,
        bind="query-params",
        help=help_text,
    )
