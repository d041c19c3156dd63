"""A check's report from top to bottom: the verdict, what explains it, and what it rests on."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import report_tables as tables
from dashboard import report_text as text
from dashboard.error_map import error_map, takeaway
from dashboard.report_text import Report
from profiling.charts.formatting import error, ratio
from profiling.charts.frame import CHART_CONFIG


def show(report: Report) -> None:
    """Draws all that the report holds; what it does not hold leaves no gap."""
    _show_verdict(report)
    _show_diagnosis(report)
    _show_table("What was tried", tables.parts(report))
    _show_error(report)
    _show_weights(report)
    _show_table("Gradients", tables.gradients(report))
    _show_table("Probes", tables.probes(report))
    _show_notes(report)
    if report.get("scope"):
        st.caption(text.sentence(report["scope"]))


def _show_verdict(report: Report) -> None:
    color, words = text.verdict_words(report["verdict"])
    with st.container(border=True, gap="xsmall", key="layer_verdict"):
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            st.markdown(f"## :{color}[{words}]", width="content")
            st.caption(" · ".join(filter(None, [text.planted(report), text.gradients(report)])), width="content")
        if not text.diagnosis(report):
            st.markdown(text.sentence(report["reason"]))


def _show_diagnosis(report: Report) -> None:
    found = text.diagnosis(report)
    if not found:
        return
    st.markdown("##### What explains it" if len(found) == 1 else "##### What may explain it")
    with st.container(border=True, key="layer_diagnosis"):
        for fault, sentence in found:
            st.markdown(f"{_large(sentence)}  \n:small[{text.code(fault)}]")
        st.caption(text.sentence(report["reason"]))


def _large(sentence: str) -> str:
    return f"**{text.sentence(sentence)}**"


def _show_error(report: Report) -> None:
    if report.get("max_abs_error") is None and not report.get("num_non_finite"):
        return
    st.markdown("##### Error against the official layer")
    bound = report.get("plain_tolerance") or 1e-5
    with st.container(horizontal=True, gap="medium", key="layer_error"):
        st.metric("max error here", text.measured(report), width="content")
        st.metric(
            "max error, all shapes",
            error(report.get("max_abs_error")),
            width="content",
            help="At the shape asked for and at the fixed probe shapes.",
        )
        st.metric(
            f"error ratio, passes up to {report['tolerance']:g}×",
            ratio(report.get("error_ratio")),
            width="content",
            help="Error against float64 / (the official layer's own + eps × largest output).",
        )
        if report.get("plain_holds") is not None:
            holds = "✓ holds" if report["plain_holds"] else "✘ does not hold"
            st.metric(
                f"plain bound {bound:.0e}",
                holds,
                width="content",
                help="Told besides; the verdict does not hang on it.",
            )
    worst = text.worst_place(report)
    if worst:
        st.caption(f"The largest error here lies at {worst}, each counted from 0.")
    _show_map(report)
    shapes = tables.shapes(report)
    if not shapes.empty:
        with st.expander("Error at each shape"):
            st.table(shapes, border="horizontal", hide_index=True)


def _show_map(report: Report) -> None:
    figure = error_map(report)
    if figure is not None:
        st.plotly_chart(figure, key="chart_errors", config=CHART_CONFIG, alt=takeaway(report))
        st.caption(f"{text.sentence(takeaway(report))} Grey is bit-identical, a red cross NaN or infinite.")


def _show_weights(report: Report) -> None:
    moved = text.weights_moved(report)
    if not moved:
        return
    unmatched = [text.code(name) for name in report.get("unmatched") or []]
    st.markdown("##### Weights")
    st.markdown(f"**{moved}** of its parameters have a counterpart in the official layer.")
    if unmatched:
        st.warning(f"Nothing in the official layer corresponds to {', '.join(unmatched)}.")
    mapping = tables.weights(report)
    if not mapping.empty:
        with st.expander("Which went where", expanded=bool(unmatched)):
            st.table(mapping, border="horizontal", hide_index=True)


def _show_table(title: str, table: pd.DataFrame) -> None:
    if not table.empty:
        st.markdown(f"##### {title}")
        st.table(table, border="horizontal", hide_index=True)


def _show_notes(report: Report) -> None:
    notes = report.get("notes") or []
    if notes:
        st.markdown("##### Notes")
        st.markdown("\n".join(f"- {text.sentence(note)}" for note in notes))
