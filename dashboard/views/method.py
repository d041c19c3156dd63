"""Method: what every number means and how it was measured."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from profiling.charts import method_answers
from profiling.charts import method_text as text
from profiling.columns import REPORT_COLUMNS
from profiling.settings import REFERENCES


def show() -> None:
    """Draws the view from top to bottom."""
    st.title("What the numbers mean, and how they are measured", anchor=False)
    with st.container(width=860):
        st.markdown(text.SHORT)
        _show("The numbers", text.NUMBERS)
        _show("Is the difference real?", text.PAIRS)
        st.latex(text.PAIRS_FORMULA)
        st.markdown(text.REPLICATES)
        st.latex(text.INTERVAL_FORMULA)
        st.markdown(text.INTERVAL)
        st.markdown(text.as_list(text.SPEED_VERDICTS))
        st.markdown(text.NOT_CLAIMED)
        _show("How it is measured", text.HOW)
        _show("Warnings, and what to do", "A warning stands beside the numbers and deletes none of them.")
        st.table(warning_table())
        _show("How far from the limit", text.COSTS)
        st.latex(text.FLOP_FORMULA)
        st.markdown(text.ROOFLINE)
        st.latex(text.ROOF_FORMULA)
        st.markdown(text.FRACTION)
        st.markdown(method_answers.LIMITS)
        for header, markdown in method_answers.SECTIONS.items():
            _show(header, markdown)
        _show("Proof on your machine", text.SELF_TEST)
        _show("The contenders", _contenders())
        _show("One layer in full", text.ONE_LAYER)
        _show("Verdicts of the check", text.as_list(text.VERDICTS))
        _show("Status of a row", text.as_list(text.STATUSES))
        st.caption("A failed point is a row with empty numbers: never 0, never left out.")
    st.header("Every column of the report", anchor=False)
    st.dataframe(column_table(), hide_index=True, height=500, alt="Name, type and meaning of every column.")


def _show(header: str, markdown: str) -> None:
    st.header(header, anchor=False)
    st.markdown(markdown)


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
