"""The live consistency check: what the layers at hand compute, against the official one, at the cheapest point."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import services
from dashboard.controls import Wish
from dashboard.formatting import CONTENDER_NAMES, MISSING, clock, count, error, plain, ratio
from dashboard.live_checks import Answer, Machine
from dashboard.start_panel import where
from profiling.estimate import call_seconds
from profiling.runs import Run
from profiling.settings import REFERENCES
from profiling.workload import Grid, Workload

TICK_S = 1.0
MAX_LIVE_ROWS = 8
# Of the layer itself; the float64 oracle takes several times as long.
LARGEST_CALL_S = 0.5

VERDICTS = {
    "pass": ("green", "✓ pass"),
    "fail": ("red", "✗ fail"),
    "not-comparable": ("orange", "≠ not comparable"),
    "error": ("red", "! error"),
}


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
    """The contenders that have a reference to be checked against."""
    return tuple(name for name in wish.settings.contenders if REFERENCES[name]) if wish.settings else ()


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
    st.markdown(f"**{name}**, the {CONTENDER_NAMES.get(name, name)}")
    if answer.busy is not None:
        st.caption(f"Waits: the device is busy since {clock(answer.busy.started_at)} with a {answer.busy.kind}.")
    elif answer.error:
        st.error(f"Not checked: {plain(answer.error)}")
    elif answer.report is None:
        st.caption("Checking …")
    else:
        _show_report(answer.report)


def _show_report(report: dict[str, Any]) -> None:
    color, words = VERDICTS.get(report["verdict"], ("gray", report["verdict"]))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.badge(words, color=color)
        st.markdown(f"max error **{_measured(report)}**")
    st.caption(_evidence(report))
    if report["verdict"] != "pass":
        st.markdown(plain(str(report["reason"])))
    with st.expander("Shapes and weights"):
        st.caption(plain(str(report.get("scope", ""))))
        st.dataframe(_comparisons(report), hide_index=True, height="content")
        for entry in report.get("mapping", []):
            st.caption(f"`{entry['theirs']}` ← `{entry['official']}`: {plain(entry['how'])}")


def _measured(report: dict[str, Any]) -> str:
    """The error at the point asked for, which is the first comparison."""
    asked = next(iter(report.get("comparisons", [])), report)
    if asked.get("num_non_finite"):
        return f"not finite ({count(asked['num_non_finite'], 'element')})"
    return error(asked.get("max_abs_error"))


def _evidence(report: dict[str, Any]) -> str:
    parts = []
    if report.get("error_ratio") is not None:
        limit = f"passes up to {report['tolerance']:g}×"
        parts.append(f"Error ratio against float64 **{ratio(report['error_ratio'])}** ({limit}).")
    if report.get("plain_holds") is not None:
        sign = "below" if report["plain_holds"] else "not below"
        shapes = count(len(report["comparisons"]), "shape")
        parts.append(
            f"Largest error over {shapes} {error(report['max_abs_error'])}, {sign} {report['plain_tolerance']:.0e}."
        )
    parts.append(f"torch {report.get('torch_version', MISSING)}.")
    return plain_markdown(" ".join(parts))


def plain_markdown(text: str) -> str:
    """Text whose only markdown is bold: a tilde or a dollar sign stays itself."""
    return text.replace("~", "\\~").replace("$", "\\$")


def _comparisons(report: dict[str, Any]) -> pd.DataFrame:
    rows = [
        {
            "shape": f"d {entry['d_model']} · h {entry['num_heads']} · b {entry['batch_size']} · s {entry['seq_len']}",
            "max error": error(entry.get("max_abs_error")),
            "ratio": ratio(entry.get("error_ratio")),
        }
        for entry in report.get("comparisons", [])
    ]
    return pd.DataFrame(rows, columns=["shape", "max error", "ratio"])


def _show_rows(rows: pd.DataFrame | None) -> None:
    st.caption("A sweep is measuring; its rows are checked as they come.")
    checked = None if rows is None else rows[rows["check_verdict"].notna()]
    if checked is None or checked.empty:
        return
    for row in checked.tail(MAX_LIVE_ROWS).iloc[::-1].to_dict("records"):
        color, words = VERDICTS.get(row["check_verdict"], ("gray", row["check_verdict"]))
        value = None if pd.isna(row["max_abs_error"]) else float(row["max_abs_error"])
        text = "not finite" if value is not None and math.isinf(value) else error(value)
        where_ = f"b {row['batch_size']} · s {row['seq_len']} · h {row['num_heads']}"
        st.markdown(f":{color}[{words}] **{text}** {row['contender']}  \n:small[:gray[{where_}]]")
    if len(checked) > MAX_LIVE_ROWS:
        failing = int((checked["check_verdict"] != "pass").sum())
        st.caption(f"{len(checked)} rows checked so far, {failing} not passing; the newest are shown.")
