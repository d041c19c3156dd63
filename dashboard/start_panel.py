"""What a sweep will take, told while the controls change, and the button that starts it."""

from __future__ import annotations

import dataclasses
import os

import streamlit as st

from dashboard import refusal, services, session, store
from dashboard.controls import Wish
from dashboard.jobs import JobError
from dashboard.live_checks import Machine
from profiling.charts.formatting import count, duration, memory, plain
from profiling.estimate import Estimate, estimate, excess


def show(wish: Wish, machine: Machine | None, *, is_busy: bool) -> None:
    """Draws the estimate and the primary button, which is off where the controls ask for what cannot be."""
    if wish.error:
        st.error(f"{plain(wish.error)}.")
    else:
        assert wish.grid is not None
        assert wish.settings is not None
        device, threads = where(wish, machine)
        wish = _confirmed(wish, _show_estimate(estimate(wish.grid, wish.settings, device=device, threads=threads)))
    st.button(
        "Run sweep",
        type="primary",
        width="stretch",
        shortcut="Ctrl+Enter",
        key="run_sweep",
        disabled=bool(wish.error) or is_busy,
        help="One sweep at a time: a second one would disturb the first." if is_busy else None,
        on_click=_start,
        args=(wish, machine),
    )
    refusal.show()


def where(wish: Wish, machine: Machine | None) -> tuple[str, int]:
    """The device and the threads that the controls mean on this machine; a guess until torch has told them."""
    assert wish.grid is not None
    best = machine.device if machine else "cpu"
    device = best if wish.grid.device == "auto" else wish.grid.device
    return device, wish.grid.threads or (machine.threads if machine else os.cpu_count() or 1)


def _start(wish: Wish, machine: Machine | None) -> None:
    refusal.forget()
    if wish.grid is None or wish.settings is None:
        return
    device = where(wish, machine)[0]
    try:
        job = services.jobs().start(wish.grid, wish.settings, device)
    except JobError as error:
        refusal.remember(error, device)
    else:
        store.pick(job.run_id)


def _show_estimate(expected: Estimate) -> str | None:
    """Draws what the sweep will take, and returns why nobody would want to start it, or None."""
    free = "" if expected.free_memory_mib is None else f" of {memory(expected.free_memory_mib)} free"
    parts = [
        f"**{count(expected.num_points, 'point')}**",
        f"≈ **{duration(expected.seconds)}**",
        f"peak ≈ **{memory(expected.peak_memory_mib)}**{free}",
    ]
    st.markdown(" · ".join(parts))
    st.caption(
        f"A point is given up after {duration(expected.time_limit_s)}.",
        help="The limit per workload is many times its estimate: what takes that long hangs, and its row says timeout.",
    )
    if expected.num_invalid:
        shown = "; ".join(expected.invalid_reasons[:3]) + ("; …" if len(expected.invalid_reasons) > 3 else "")
        st.warning(
            f"{count(expected.num_invalid, 'point')} cannot be measured: {plain(shown)}. They will be marked invalid."
        )
    return excess(expected)


def _confirmed(wish: Wish, reason: str | None) -> Wish:
    """The wish, off where something speaks against it, and on again where that is what is wanted."""
    if reason is None or wish.settings is None:
        return wish
    st.error(f"{plain(reason[:1].upper() + reason[1:])}.")
    is_meant = st.checkbox(
        "Measure it all the same",
        key=session.ANYWAY,
        help="What does not fit is marked as out of memory, the other points stand. The machine may become slow, or "
        "end other programs, before that.",
    )
    if not is_meant:
        return Wish(error=reason)
    return dataclasses.replace(wish, settings=dataclasses.replace(wish.settings, anyway=True))
