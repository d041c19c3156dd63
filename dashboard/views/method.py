"""Method: what every number means and how it was measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pandas as pd
import streamlit as st

from profiling.charts import method_answers
from profiling.charts import method_text as text
from profiling.columns import REPORT_COLUMNS
from profiling.settings import REFERENCES

COLUMNS = "Every column of the report"
# Of text that is read line by line.
WIDTH = 860


def show() -> None:
    """Draws the view from top to bottom: what is most important, where to find the rest, and the rest."""
    sections = _sections()
    st.title("What the numbers mean, and how they are measured", anchor=False)
    with st.container(width=WIDTH):
        st.markdown(text.SHORT)
        st.markdown(" · ".join(f"[{header}](#{anchor_of(header)})" for header in (*sections, COLUMNS)))
        for header, draw in sections.items():
            st.header(header, anchor=anchor_of(header))
            draw()
    st.header(COLUMNS, anchor=anchor_of(COLUMNS))
    st.dataframe(column_table(), hide_index=True, height=500, alt="Name, type and meaning of every column.")


def anchor_of(header: str) -> str:
    """By which a link leads to a section."""
    return "-".join(re.findall(r"\w+", header.lower()))


def _sections() -> dict[str, Callable[[], None]]:
    """What draws each section, by its header, in order."""
    told = {header: partial(_tell, markdown) for header, markdown in method_answers.SECTIONS.items()}
    return {
        "The numbers": partial(_tell, text.NUMBERS),
        "Is the difference real?": _show_difference,
        "How it is measured": partial(_tell, text.HOW),
        "Warnings, and what to do": _show_warnings,
        "How far from the limit": _show_limits,
        **told,
        "Proof on your machine": partial(_tell, text.SELF_TEST),
        "The contenders": partial(_tell, _contenders()),
        "One layer in full": partial(_tell, text.ONE_LAYER),
        "Verdicts of the check": partial(_tell, text.as_list(text.VERDICTS)),
        "Status of a row": _show_statuses,
    }


def _tell(markdown: str) -> None:
    st.markdown(markdown)


def _show_difference() -> None:
    st.markdown(text.PAIRS)
    st.latex(text.PAIRS_FORMULA)
    st.markdown(text.REPLICATES)
    st.latex(text.INTERVAL_FORMULA)
    st.markdown(text.INTERVAL)
    st.markdown(text.as_list(text.SPEED_VERDICTS))
    st.markdown(text.NOT_CLAIMED)


def _show_warnings() -> None:
    st.markdown("A warning stands beside the numbers and deletes none of them.")
    st.table(warning_table())


def _show_limits() -> None:
    st.markdown(text.COSTS)
    st.latex(text.FLOP_FORMULA)
    st.markdown(text.ROOFLINE)
    st.latex(text.ROOF_FORMULA)
    st.markdown(text.FRACTION)
    st.markdown(method_answers.LIMITS)


def _show_statuses() -> None:
    st.markdown(text.as_list(text.STATUSES))
    st.caption("A failed point is a row with empty numbers: never 0, never left out.")


def warning_table() -> pd.DataFrame:
    """Every kind of warning by the words it is known by, what is behind it, and what to do."""
    columns = ["it says", "what is behind it", "what to do"]
    return pd.DataFrame([(f"… {words} …", *rest) for words, *rest in text.WARNINGS], columns=columns).set_index(
        columns[0]
    )


def column_table() -> pd.DataFrame:
    """Every column of the report with its meaning."""
    rows = [(column.name, column.kind, column.meaning) for column in REPORT_COLUMNS]
    return pd.DataFrame(rows, columns=["column", "type", "meaning"])


def _contenders() -> str:
    calls = {
        "custom": "the explicit layer: scores, softmax and weighted sum written out",
        "custom-fused": "the fused layer: torch's `scaled_dot_product_attention`",
        "official": "`torch.nn.MultiheadAttention` in its default call, which computes explicitly as well",
        "official-fused": "the same called with `need_weights=False`, which runs the fused kernel",
        "official-fastpath": "the same in the fast path that torch keeps for inference with biases",
    }
    lines = [
        f"- **{name}**: {what}" + (f"; compared with {REFERENCES[name]}." if REFERENCES.get(name) else ".")
        for name, what in calls.items()
    ]
    lines.append("- **compiled:NAME**: any of these run through `torch.compile`; compiling is no part of its latency.")
    lines.append(
        "- **file.py:Name**: a layer of your own, named where the program is started; compared with official, or with "
        "another official call where you say so."
    )
    return (
        "The official layer is several programs, so each layer is compared with the call that does the same work.\n\n"
        + ("\n".join(lines))
    )
