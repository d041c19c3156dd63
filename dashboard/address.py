"""The page's address: what it asks for and cannot be is told in a sentence, and goes before a control sees it.

A control would take its default without a word, or break: Streamlit makes an error of `?d_model=inf`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from dashboard import session
from profiling.charts.formatting import plain
from profiling.compare.comparing import parse_share
from profiling.compare.sides import CompareError
from profiling.laws.crossover_search import AXES as CROSSOVER_AXES
from profiling.layers import is_layer
from profiling.parsing import parse_number, parse_seconds
from profiling.quoted import quoted
from profiling.settings import HEAPS, OFFICIAL, REFERENCES, reference_of, require_seconds
from profiling.workload import (
    DTYPES,
    MODES,
    GridError,
    require_device,
    require_seed,
    require_size,
    require_threads,
)

# What a browser counts without a gap; a control holds no larger number.
MAX_NUMBER = 2**53 - 1
# The least that the control takes.
LEAST_BUDGET_S = 0.01
MAX_SHOWN = 4

# Raises GridError where the texts of one parameter, by its name, cannot be.
Rule = Callable[[str, Sequence[str]], None]


def complaints(parameters: Mapping[str, Sequence[str]], devices: Sequence[str] = ()) -> dict[str, str]:
    """Parameter → why it cannot be, for those of an address that cannot; parameters of others are passed over.

    Args:
        parameters: name → its values in the address, in their order.
        devices: the devices that are here; empty while that is not known.
    """
    found = {}
    for name, texts in parameters.items():
        rule = RULES.get(name)
        if rule is None or list(texts) == [""]:  # nobody's, or an emptied control
            continue
        try:
            rule(_argument(name), texts)
            if name == session.DEVICE and devices:
                _one_of(("auto", *devices), name, texts)
        except GridError as error:
            found[name] = str(error)
    return found


def clean(devices: Sequence[str] = ()) -> None:
    """Takes what cannot be out of the address and begins again without it. Belongs before the first control."""
    found = complaints({name: st.query_params.get_all(name) for name in st.query_params}, devices)
    removed = {}
    for name, complaint in found.items():
        with contextlib.suppress(StreamlitAPIException):  # a control's own by now, which has put it right
            del st.query_params[name]
            removed[name] = complaint
    if removed:
        st.session_state[session.ADDRESS_COMPLAINTS] = st.session_state.get(session.ADDRESS_COMPLAINTS, {}) | removed
        st.session_state.pop(session.ADDRESS_VALUES, None)
        st.rerun()


def show() -> None:
    """Draws what the address asked for in vain, until a control is changed. Belongs behind the last control."""
    told: dict[str, str] = st.session_state.get(session.ADDRESS_COMPLAINTS, {})
    values = {name: st.session_state[name] for name in RULES if name in st.session_state}
    before = st.session_state.setdefault(session.ADDRESS_VALUES, values) if told else {}
    if any(values[name] != value for name, value in before.items() if name in values):
        st.session_state.pop(session.ADDRESS_COMPLAINTS)
        return
    if told:
        lines = [f"- {plain(complaint)}." for complaint in list(told.values())[:MAX_SHOWN]]
        rest = [f"- … and {len(told) - MAX_SHOWN} more"] if len(told) > MAX_SHOWN else []
        st.warning("\n".join(["The link asks for what cannot be; the controls go on without it:", "", *lines, *rest]))


def _argument(name: str) -> str:
    """The name that error messages use."""
    return {session.TIME_BUDGET: "time_budget_s", session.QUIET_WAIT: "quiet_wait_s"}.get(
        name, name.removeprefix("layer_").removeprefix("op_").removeprefix("cross_").removeprefix("fits_")
    )


def _number(require: Callable[[str, Any], None], name: str, texts: Sequence[str]) -> None:
    number = parse_number(name, texts[-1])  # of a parameter that is repeated, the last counts
    require(name, number)
    if number > MAX_NUMBER:
        raise GridError(f"{name} must be at most {MAX_NUMBER:,} in the page, not {number:,}")


def _seconds(least: float, name: str, texts: Sequence[str]) -> None:
    seconds = parse_seconds(name, texts[-1])
    require_seconds(name, seconds, may_be_zero=least == 0)
    if seconds < least:
        raise GridError(f"{name} must be at least {least:g} s in the page, not {quoted(texts[-1])}")


def _one_of(options: Sequence[str], name: str, texts: Sequence[str]) -> None:
    _each_of(options, name, texts[-1:])


def _each_of(options: Sequence[str], name: str, texts: Sequence[str]) -> None:
    for text in texts:
        if text not in options:
            raise GridError(f"{name} must be one of {', '.join(options)}, not {quoted(text)}")


def _contenders(name: str, texts: Sequence[str]) -> None:
    # A layer of one's own that nobody has named here is told elsewhere, with how to name it.
    _each_of(tuple(REFERENCES), name, [text for text in texts if not is_layer(text)])


def _contender(_: str, texts: Sequence[str]) -> None:
    reference_of(texts[-1])


def _percent(name: str, texts: Sequence[str]) -> None:
    try:
        parse_share(f"{texts[-1]}%")
    except CompareError:
        raise GridError(f"{name} must be a number of per cent from 0 to 1,000, not {quoted(texts[-1])}") from None


def _without_name(require: Callable[[Any], None]) -> Callable[[str, Any], None]:
    return lambda _, value: require(value)


_SIZE = partial(_number, require_size)
_SWITCHES = partial(_each_of, ("no", "yes"))
_TOGGLE = partial(_one_of, ("true", "false", "True", "False"))
RULES: dict[str, Rule] = {
    session.WIDTH_KIND: partial(_one_of, ("d_model", "head_dim")),
    session.D_MODEL: _SIZE,
    session.HEAD_DIM: _SIZE,
    session.DTYPE: partial(_each_of, DTYPES),
    session.MODE: partial(_each_of, MODES),
    session.BIAS: _SWITCHES,
    session.CAUSAL: _SWITCHES,
    session.DEVICE: lambda _, texts: require_device(texts[-1]),
    session.THREADS: partial(_number, _without_name(require_threads)),
    session.SEED: partial(_number, _without_name(require_seed)),
    session.CONTENDERS: _contenders,
    session.COMPILED: _contenders,
    session.REPLICATES: _SIZE,
    session.TIME_BUDGET: partial(_seconds, LEAST_BUDGET_S),
    session.QUIET_WAIT: partial(_seconds, 0.0),
    session.HEAP: partial(_one_of, HEAPS),
    session.REFERENCE: partial(_one_of, OFFICIAL),
    session.FAIL_ABOVE: _percent,
    session.LAYER_D_MODEL: _SIZE,
    session.LAYER_NUM_HEADS: _SIZE,
    session.LAYER_BATCH_SIZE: _SIZE,
    session.LAYER_SEQ_LEN: _SIZE,
    session.LAYER_DTYPE: partial(_one_of, DTYPES),
    session.LAYER_CAUSAL: _TOGGLE,
    session.LAYER_BATCH_FIRST: _TOGGLE,
    session.OPERATORS_ONE: _contender,
    session.OPERATORS_OTHER: _contender,
    session.OPERATORS_BATCH_SIZE: _SIZE,
    session.OPERATORS_SEQ_LEN: _SIZE,
    session.OPERATORS_NUM_HEADS: _SIZE,
    session.OPERATORS_D_MODEL: _SIZE,
    session.OPERATORS_DTYPE: partial(_one_of, DTYPES),
    session.OPERATORS_MODE: partial(_one_of, MODES),
    session.OPERATORS_BIAS: _TOGGLE,
    session.OPERATORS_CAUSAL: _TOGGLE,
    session.CROSSOVER_ONE: _contender,
    session.CROSSOVER_OTHER: _contender,
    session.CROSSOVER_AXIS: partial(_one_of, CROSSOVER_AXES),
    **{session.crossover_end(end, axis): _SIZE for end in ("from", "to") for axis in CROSSOVER_AXES},
    session.FITS_ONE: _contender,
}
