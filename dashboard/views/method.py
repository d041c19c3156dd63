"""Method: what every number means and how it was measured."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from profiling.columns import REPORT_COLUMNS
from profiling.settings import MIN_ROUNDS, REFERENCES

STATUSES = {
    "ok": "measured; every number that the device can offer is there",
    "oom": "the point did not fit into memory",
    "crashed": "the measuring process died while this contender ran",
    "timeout": "the point took longer than its time limit, which is many times its estimate",
    "error": "the layer raised an error; the reason holds its message",
    "invalid": "no such layer: the heads do not divide d_model",
    "unavailable": "this torch or this device cannot run it",
}

VERDICTS = {
    "pass": "the layer is at most twice as far from the truth as the official layer is, and every output is finite",
    "fail": "it is further off, or an output is NaN or infinite; its speed-up does not count",
    "not-comparable": "another design: its weights cannot correspond to those of the official layer",
    "error": "it raised an error; the reason holds its message",
}

MEANINGS = """
**Latency** is the time of one call. The page shows the median of all timed samples; the band around a line holds the
middle half of them (from the quartile p25 to p75). Lower is better.

**Speed-up** is the reference's time divided by the contender's. Above 1 the contender is faster. It is taken round by
round, from times measured next to each other, and the median over rounds is shown; means over several shapes are
geometric, so that 2× and 0.5× cancel. Only shapes that both sides completed count, and only where the contender passes
the check: a wrong answer has no speed. A layer of another design (*not comparable*, such as grouped queries) counts,
and is marked.

**Is the difference real?** A clone of the reference runs in every round, with weights of its own. How far its ratio
strays from 1 is the **noise floor**: a speed-up within it says nothing. Between processes the ratio moves by some per
cent as well, so a verdict needs replicates, passes over the grid in fresh processes. From their speed-ups comes a 95 %
interval: **faster** or **slower** where it lies wholly outside of 1 ± 2 % and of the noise floor, **same** where it
lies wholly within 1 ± 2 %, else **unsure**; and **provisional** below five replicates, whatever it looks like.
**Warnings** under a result tell what disturbed it (other processes, drift, few rounds) and what to do.

**Peak memory** is the most bytes that the call itself holds at once, beyond what was live before it. It is counted by
the allocator, not read from the size of the process. MiB are 2²⁰ bytes. Lower is better.

**Max error** is the largest absolute difference between the contender's output and its reference's, for the same
weights and input. *0 (bit-identical)* means that not one bit differs.

**Error against float64** is the largest difference from the same layer computed in double precision. Nobody computes
exactly in float32, so the **error ratio** sets it against the official layer's own:
error / (the official layer's error + eps × largest output). About 1 is as exact as the official layer; the check
passes up to 2.
"""

ONE_LAYER = """
**My layer** holds one layer against the official one: same random weights and biases, same input, at the shape asked
for and at fixed probe shapes, at which no two sizes are equal. The verdict comes from all of it together: the output,
the gradients, and, where the layer takes them, masks and keys from elsewhere.

**What explains it** is found by trying known faults one at a time, then in pairs, until one gives the layer's very
output. Where none does, the probes say what was seen instead.

**n of n planted faults caught**: the check checks itself. It plants the same faults in a right layer and counts those
that it tells by name.

**The map** shows the largest |error| of each position and each block of output channels, as wide as a head. Its colours
mean the same in every map: dark is rounding, bright is as large as the output itself.
"""

HOW = f"""
1. **Measuring has a process of its own**, apart from this page and from the program that supervises the sweep. If it
   dies, the contender that was running has a row without numbers, which says why; nothing else is lost.
2. **The check comes first.** Every contender gets the same weights and input as the official layer.
3. **Then the times, in rounds.** Each round calls every contender once, in a fresh random order, so that what disturbs
   one disturbs all. Calls are repeated within a sample until it lasts well above the clock's resolution. At least
   {MIN_ROUNDS} rounds are timed, then as many as the time budget allows.
4. **Then the memory**, in a pass of its own, because watching the allocator takes time.
5. **Replicates** are fresh processes that pass over the grid again. One is enough for a first impression.
6. **One sweep at a time** per device. Two at once would slow each other down, unevenly.
7. Every raw sample is kept in the run's folder, in `samples.csv`.
"""


def show() -> None:
    """Draws the view from top to bottom."""
    st.title("What the numbers mean, and how they are measured", anchor=False)
    with st.container(width=860):
        st.header("The numbers", anchor=False)
        st.markdown(MEANINGS)
        st.header("One layer in full", anchor=False)
        st.markdown(ONE_LAYER)
        st.header("The contenders", anchor=False)
        st.markdown(_contenders())
        st.header("How it is measured", anchor=False)
        st.markdown(HOW)
        st.header("Verdicts of the check", anchor=False)
        st.markdown(_definitions(VERDICTS))
        st.header("Status of a row", anchor=False)
        st.markdown(_definitions(STATUSES))
        st.caption("A failed point is a row with empty numbers: never 0, never left out.")
    st.header("Every column of the report", anchor=False)
    st.dataframe(column_table(), hide_index=True, height=500, alt="Name, type and meaning of every column.")


def column_table() -> pd.DataFrame:
    """Every column of the report with its meaning."""
    rows = [(column.name, column.kind, column.meaning) for column in REPORT_COLUMNS]
    return pd.DataFrame(rows, columns=["column", "type", "meaning"])


def _definitions(terms: dict[str, str]) -> str:
    return "\n".join(f"- **{name}**: {meaning}." for name, meaning in terms.items())


def _contenders() -> str:
    calls = {
        "custom": "the explicit layer: scores, softmax and weighted sum written out",
        "custom-fused": "the fused layer: torch's `scaled_dot_product_attention`",
        "official": "`torch.nn.MultiheadAttention` in its default call, which computes explicitly as well",
        "official-fused": "the same called with `need_weights=False`, which runs the fused kernel",
    }
    lines = [
        f"- **{name}**: {text}" + (f"; compared with {REFERENCES[name]}." if REFERENCES[name] else ".")
        for name, text in calls.items()
    ]
    lines.append(
        "- **file.py:Name**: a layer of your own, named where the program is started; compared with official, or with "
        "official-fused where you say so."
    )
    return (
        "The official layer is several programs, so each layer is compared with the call that does the same work.\n\n"
        + ("\n".join(lines))
    )
