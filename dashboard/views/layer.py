"""My layer: one layer in full, whether it is right, and if not, what is wrong and where."""

from __future__ import annotations

import streamlit as st

from dashboard import layer_controls, layer_notices, report_view, services, snippets
from dashboard.check_panel import LARGEST_CALL_S
from dashboard.jobs import sweep_on
from dashboard.layer_controls import LayerWish
from dashboard.layers import stamp
from dashboard.live_checks import PENDING, Answer
from profiling.charts.formatting import clock, plain
from profiling.charts.names import name_of
from profiling.estimate import call_seconds
from profiling.layers import is_layer
from profiling.workload import Workload

TICK_S = 1.0
# How often an answered check looks whether the layer's file was edited.
WATCH_S = 2.0


def show() -> None:
    """Draws the view from top to bottom, left to right."""
    layers = services.layers()
    checks = services.live_checks()
    st.title("My layer", anchor=False)
    left, right = st.columns([1.15, 3.2], gap="medium")
    with left:
        notices = st.container()
        wish = layer_controls.show(layers, checks.machine)
        with notices:
            layer_notices.show()
        st.button(
            "Check",
            type="primary",
            width="stretch",
            shortcut="Ctrl+Enter",
            key="check_layer",
            on_click=_again,
            args=(wish,),
        )
        _show_how(has_own=bool(layers.specs))
    with right:
        _show_check(wish)
        if wish.workload is not None:
            _show_guard(wish, wish.workload)


def _show_check(wish: LayerWish) -> None:
    """The answer in a fragment that ticks while it is to come, and afterwards only where a file may change."""
    if wish.workload is None:
        st.error(f"{plain(wish.error)}.")
        return
    if call_seconds(wish.workload) > LARGEST_CALL_S:
        st.info("At this shape a check takes too long to be live. Make it smaller, or use the command line below.")
        return
    answer = _ask(wish)
    ticks = TICK_S if answer.is_pending or answer.busy else WATCH_S if is_layer(wish.contender) else None
    st.fragment(_watch, run_every=ticks)(wish, _seen(wish, answer))


def _watch(wish: LayerWish, drawn: object) -> None:
    checks = services.live_checks()
    answer = _ask(wish)
    if answer.busy is not None and sweep_on(answer.busy.device) is None:
        checks.forget_busy()
        answer = _ask(wish)
    if _seen(wish, answer) != drawn:
        st.rerun()  # starts or stops the ticking, and tells the rest of the page what torch has found
    _show_answer(wish, answer)


def _seen(wish: LayerWish, answer: Answer) -> object:
    """What the whole page depends on: drawn anew when, and only when, it changes."""
    return services.live_checks().machine, answer.is_pending, answer.busy is None, stamp(wish.contender)


def _ask(wish: LayerWish, *, again: bool = False) -> Answer:
    assert wish.workload is not None
    checks = services.live_checks()
    if checks.machine is None and not checks.machine_error:
        return PENDING  # where it will run, and so what to ask, is not known yet
    return checks.ask(wish.workload, wish.contender, batch_first=wish.batch_first, again=again)


def _again(wish: LayerWish) -> None:
    if wish.workload is not None and call_seconds(wish.workload) <= LARGEST_CALL_S:
        _ask(wish, again=True)


def _show_answer(wish: LayerWish, answer: Answer) -> None:
    if answer.busy is not None:
        since = clock(answer.busy.started_at)
        st.info(f"Waits: {answer.busy.device} is busy since {since} with a {answer.busy.kind}. It is checked then.")
    elif answer.error:
        st.error(f"Not checked: {plain(answer.error)}")
    elif answer.report is None:
        st.info(f"Checking {plain(name_of(wish.contender))} …")
    else:
        report_view.show(answer.report)


def _show_guard(wish: LayerWish, workload: Workload) -> None:
    st.markdown("##### Keep it right")
    st.caption("As a test of yours, for pytest:")
    st.code(
        snippets.pytest_source(wish.contender, workload, batch_first=wish.batch_first),
        language="python",
        wrap_lines=True,
    )
    st.caption("The same check at the command line:")
    arguments = snippets.check_arguments(wish.contender, workload, batch_first=wish.batch_first)
    st.code(snippets.command(arguments), language="bash", wrap_lines=True)


def _show_how(*, has_own: bool) -> None:
    """How a layer gets here; for those who have one here already, a click away."""
    with st.expander("How to bring a layer of your own", expanded=not has_own):
        st.caption("Name its file and its class, or a function that makes it, where the program is started:")
        st.code(layer_notices.COMMAND, language="bash", wrap_lines=True)
        st.caption(
            "The constructor may use any usual names for its arguments (d_model or embed_dim, num_heads or n_head …), "
            "and forward takes (x) or (query, key, value). Where the layout of the weights cannot be read, give the "
            "class a method load_from_official(self, official). "
            "Repeat the option for more layers. When you save the file, it is checked anew."
        )
