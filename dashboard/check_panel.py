"""The live consistency check: what the layers at hand compute, against the official one, at the cheapest point."""

from __future__ import annotations

import dataclasses
import math

import pandas as pd
import streamlit as st

from dashboard import report_tables, services
from dashboard import report_text as text
from dashboard.controls import Wish
from dashboard.live_checks import Answer, Machine
from dashboard.report_text import Report
from dashboard.start_panel import where
from profiling.charts.formatting import CONTENDER_NAMES, clock, count, error, plain
from profiling.charts.names import file_of, name_of
from profiling.estimate import call_seconds
from profiling.layers import is_compiled, is_layer
from profiling.runs import Run
from profiling.settings import OFFICIAL
from profiling.workload import Grid, Workload

TICK_S = 1.0
MAX_LIVE_ROWS = 8
# Of the layer itself; the float64 oracle takes several times as long.
LARGEST_CALL_S = 0.5


def show(wish: Wish, running: Run | None, rows: pd.DataFrame | None) -> None:
    """Draws the panel: live answers, or, while a sweep runs, the error of each row as it comes."""
    st.markdown("##### Consistency check")
    if running is not None:
        _show_rows(rows)
        return
    checks = services.live_checks()
    checks.forget_busy()
    machine = checks.machine
    point = None if wish.grid is None else cheapest_point(wish, machine)
    contenders = checked_contenders(wish)
    if wish.error or not contenders:
        st.caption(
            "Nothing to check: correct the controls first." if wish.error else "No layer of ours among the contenders."
        )
    elif point is None:
        st.caption("Nothing to check: no point of this grid can have a layer.")
    elif call_seconds(point) > LARGEST_CALL_S:
        st.caption(
            f"At {plain(point.label)} a check takes too long to be live: a sweep checks every point it measures."
        )
    else:
        is_loading = machine is None and not checks.machine_error
        is_pending = is_loading or any(checks.ask(point, name).is_pending for name in contenders)
        st.fragment(_answers, run_every=TICK_S if is_pending else None)(wish, contenders, is_pending)


def cheapest_point(wish: Wish, machine: Machine | None) -> Workload | None:
    """The valid point of the grid that is quickest to compute; None where every point is invalid."""
    grid = wish.grid
    assert grid is not None
    smallest: Grid = dataclasses.replace(grid, batch_size=(min(grid.batch_size),), seq_len=(min(grid.seq_len),))
    device, threads = where(wish, machine)
    points = [point for point in smallest.workloads(device=device, threads=threads) if point.invalid_reason is None]
    cheapest = min(points, key=call_seconds, default=None)
    # The live check compares outputs without gradients, whatever the sweep will time.
    return None if cheapest is None else dataclasses.replace(cheapest, mode="inference")


def checked_contenders(wish: Wish) -> tuple[str, ...]:
    """The contenders that are checked against the official layer: layers of one's own first."""
    settings = wish.settings
    names = settings.contenders if settings else ()
    found = [name for name in names if name not in OFFICIAL and not is_compiled(name)]
    return tuple(sorted(found, key=lambda name: not is_layer(name)))


def _answers(wish: Wish, contenders: tuple[str, ...], was_pending: bool) -> None:
    checks = services.live_checks()
    machine = checks.machine
    if machine is None and not checks.machine_error:
        st.caption("Loading torch in a process of its own …")
        return
    point = cheapest_point(wish, machine)
    assert point is not None
    answers = {name: checks.ask(point, name) for name in contenders}
    if was_pending != any(answer.is_pending for answer in answers.values()):
        st.rerun()  # starts or stops the ticking, and tells the rest of the page what torch has found
    for name, answer in answers.items():
        with st.container(border=True, gap="xsmall", key=f"check_{name}"):
            _show_answer(name, answer)
    st.caption(f"At {plain(point.label)}, and at fixed probe shapes.")
    if st.button("Check again", key="check_again", disabled=was_pending):
        for name in contenders:
            checks.ask(point, name, again=True)
        st.rerun()  # the whole page: a fragment that does not tick would not see the answer come


def _show_answer(name: str, answer: Answer) -> None:
    whose = f"from {text.code(file_of(name))}" if is_layer(name) else f"the {CONTENDER_NAMES.get(name, name)}"
    st.markdown(f"**{plain(name_of(name))}**, {whose}")
    if answer.busy is not None:
        st.caption(f"Waits: the device is busy since {clock(answer.busy.started_at)} with a {answer.busy.kind}.")
    elif answer.error:
        st.error(f"Not checked: {plain(answer.error)}")
    elif answer.report is None:
        st.caption("Checking …")
    else:
        _show_report(answer.report)


def _show_report(report: Report) -> None:
    color, words = text.verdict_words(report["verdict"])
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.badge(words, color=color)
        st.markdown(f"max error **{text.measured(report)}**")
    diagnosis = text.diagnosis(report)
    for _, sentence in diagnosis:
        st.markdown(f"**{text.sentence(sentence)}**")
    if report["verdict"] != "pass" and not diagnosis:
        st.markdown(text.sentence(report["reason"]))
    st.caption(text.evidence(report))
    itself = " · ".join(filter(None, [text.gradients(report), text.planted(report)]))
    if itself:
        st.caption(itself)
    with st.expander("Shapes and weights"):
        if diagnosis:
            st.caption(text.sentence(report["reason"]))
        st.caption(text.sentence(report.get("scope", "")))
        st.dataframe(_plain_shapes(report), hide_index=True, height="content")
        for entry in report.get("mapping") or []:
            st.caption(f"{text.code(entry['theirs'])} ← {text.code(entry['official'])}: {plain(entry['how'])}")


def _plain_shapes(report: Report) -> pd.DataFrame:
    return report_tables.shapes(report).drop(columns="verdict").rename(columns={"error ratio": "ratio"})


def _show_rows(rows: pd.DataFrame | None) -> None:
    st.caption("A sweep is measuring; its rows are checked as they come.")
    checked = None if rows is None else rows[rows["check_verdict"].notna()]
    if checked is None or checked.empty:
        return
    for row in checked.tail(MAX_LIVE_ROWS).iloc[::-1].to_dict("records"):
        color, words = text.verdict_words(row["check_verdict"])
        value = None if pd.isna(row["max_abs_error"]) else float(row["max_abs_error"])
        found = "not finite" if value is not None and math.isinf(value) else error(value)
        where_ = f"b {row['batch_size']} · s {row['seq_len']} · h {row['num_heads']}"
        st.markdown(f":{color}[{words}] **{found}** {plain(name_of(row['contender']))}  \n:small[:gray[{where_}]]")
    if len(checked) > MAX_LIVE_ROWS:
        failing = int((checked["check_verdict"] != "pass").sum())
        st.caption(f"{count(len(checked), 'row')} checked so far, {failing} not passing; the newest are shown.")
