"""A comparison, drawn: the answer, the mean of each contender, what was covered, what else differs, chart and table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import compare_link, compare_table, snippets
from profiling.charts.compare_chart import compare_chart
from profiling.charts.compare_text import compare_alt
from profiling.charts.compared_rows import Drawn, choose_rows
from profiling.charts.formatting import count, plain
from profiling.charts.frame import CHART_CONFIG
from profiling.compare.columns import VERDICTS
from profiling.compare.comparing import Comparison
from profiling.compare.coverage import Geomean
from profiling.compare.differences import Difference
from profiling.compare.text import answer_of, broken_sentences
from profiling.strict_json import finite
from profiling.wording import workload_words

CARDS_A_ROW = 3
# What is beyond stands in the JSON.
MOST_CARDS = 12
MOST_SENTENCES = 30
MEASURES = {"relative": "time next to the reference", "latency": "latency, machine included"}

CAPTION = (
    "Right of 0 is slower. Full marks claim a difference, hollow ones none (same, unsure or provisional), grey ones do "
    "not count: a check fails. Bars: 95 % interval for all contenders of a shape together. Grey band: noise, at least "
    "2 %. A ring is a regression: above the threshold, and beyond noise for all rows together. "
    "A click on a mark leads to its samples."
)


def show(found: Comparison) -> None:
    """Draws a comparison from top to bottom."""
    if found.problems:
        st.warning(" ".join(f"{plain(each)}." for each in found.problems))
    _show_answer(found)
    _show_means(found)
    _show_sentences(found)
    show_differences(found.differences)
    _show_chart(found)
    st.markdown("##### Every row, the worst first")
    compare_table.show(found.rows, found.names)
    st.download_button(
        "Download JSON",
        data=lambda: json.dumps(finite(found.to_dict()), ensure_ascii=False, allow_nan=False),
        file_name="mha-bench-comparison.json",
        mime="application/json",
        on_click="ignore",
        key="download_comparison",
        help="All of it: every row with every column, as `compare --json` prints it, with layers called as here.",
    )


def show_differences(differences: Sequence[Difference]) -> None:
    """Draws what else than the layers differs, the serious first; closed where nothing of it is serious."""
    if not differences:
        st.caption("Device, torch, threads, heap and all else that is recorded are the same on both sides.")
        return
    number = sum(each.is_serious for each in differences)
    serious = f", {number:,} of which forbids a comparison" if number else ""
    with st.expander(f"{count(len(differences), 'difference')} besides the layers{serious}", expanded=number > 0):
        lines = [
            f"- {'**' if each.is_serious else ''}{plain(each.sentence)}{'**' if each.is_serious else ''}"
            for each in differences
        ]
        st.markdown("\n".join(lines))


def show_command(
    base: Sequence[str], new: Sequence[str], fail_above: float, *, anyway: bool, is_file: bool = False
) -> None:
    """Draws how the same is done where nobody looks at a page.

    Args:
        base: the ids of the runs of BASE, the first of which may be the name of a file.
        new: the ids of those of NEW.
        fail_above: the share above which a change counts.
        anyway: whether it is compared in spite of what forbids it.
        is_file: whether the first is a baseline file already.
    """
    words = ["--fail-above", f"{100 * fail_above:g}%", *(["--anyway"] if anyway else [])]
    st.markdown("##### The same in CI")
    st.caption("Exit status 1 with a regression, 0 without one, 2 where nothing could be compared:")
    st.code(snippets.command(_compare_words(base, new, words)), language="bash", wrap_lines=True)
    if is_file:
        return
    kept = "a file that is kept" if len(base) == 1 else "files that are kept"
    st.caption(f"With {kept} beside the code in place of BASE's folder{'s' * (len(base) > 1)}:")
    files = ["baseline.csv", *(f"baseline-{number}.csv" for number in range(2, len(base) + 1))]
    lines = [["export", run, "--out", file] for run, file in zip(base, files, strict=True)]
    lines.append(_compare_words(files, new, words))
    st.code("\n".join(map(snippets.command, lines)), language="bash", wrap_lines=True)


def _compare_words(base: Sequence[str], new: Sequence[str], words: Sequence[str]) -> list[str]:
    also = [
        word for name, side in (("base", base), ("new", new)) for run in side[1:] for word in (f"--{name}-also", run)
    ]
    return ["compare", base[0], new[0], *also, *words]


def _show_answer(found: Comparison) -> None:
    answer = answer_of(found)
    counts = ", ".join(f"{number:,} {verdict}" for verdict, number in found.verdicts.items() if number)
    told = f"**{plain(answer)}**  \nTime: {counts or 'no verdict'}."
    # What is broken or missing is told here, and not among all else.
    more = [f"Broken: {each}" for each in broken_sentences(found)] + [each.sentence for each in found.missing]
    told += "".join(f"  \n{plain(each)}." for each in more[:MOST_SENTENCES])
    if found.is_failure():
        st.error(told)
    elif found.is_marked or found.missing or found.verdicts["provisional"] or not counts:
        st.warning(told)
    else:
        st.success(told)


def _show_means(found: Comparison) -> None:
    """A card for each contender: geometric means over its common, passing shapes, and what may be claimed of them."""
    judged = found.rows[~found.rows["is_yardstick"]]
    by_contender = dict(iter(judged.groupby("contender", sort=False)))
    means = {name: list(group) for name, group in itertools.groupby(found.geomeans, key=lambda each: each.contender)}
    shown = list(by_contender)[:MOST_CARDS]
    for first in range(0, len(shown), CARDS_A_ROW):
        for place, name in zip(st.columns(CARDS_A_ROW, gap="small"), shown[first : first + CARDS_A_ROW], strict=False):
            with place:
                _show_card(found.names[str(name)], means.get(str(name), []), by_contender[name])
    if len(by_contender) > MOST_CARDS:
        st.caption(f"{len(by_contender) - MOST_CARDS:,} more contenders stand in the table and the JSON.")


def _show_card(name: str, means: Sequence[Geomean], rows: pd.DataFrame) -> None:
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"**{plain(name)}**")
        numbers = st.container(horizontal=True, gap="small")
        for mean in means:
            numbers.metric(
                MEASURES[mean.measure],
                f"{100 * (mean.ratio - 1):+.1f} %",
                help=f"Geometric mean over {count(mean.num_shapes, 'shape')} measured on both sides that pass.",
            )
        verdicts = rows["verdict"].value_counts()
        told = [f"{int(verdicts[verdict]):,} {verdict}" for verdict in VERDICTS if verdict in verdicts.index]
        num_regressions = int(rows["is_regression"].sum())
        told += [f"**{count(num_regressions, 'regression')}**"] if num_regressions else []
        shapes = max((mean.num_shapes for mean in means), default=0)
        st.caption(f"Mean over {shapes:,} of {count(len(rows), 'shape')}. {', '.join(told) or 'No verdict'}.")


def _show_sentences(found: Comparison) -> None:
    lines = [f"- Coverage: {plain(each)}." for each in found.coverage[:MOST_SENTENCES]]
    lines += [f"- Coverage: {len(found.coverage) - MOST_SENTENCES:,} more sentences stand in the JSON."] * (
        len(found.coverage) > MOST_SENTENCES
    )
    lines += [f"- Machine: {plain(found.machine)}."] if found.machine else []
    further = " (*Further runs*)" if sum(found.num_runs) == 2 else ""
    lines.append(f"- Run to run: {plain(found.run_to_run.sentence(found.num_runs))}{further}.")
    lines += [f"- Note: {plain(each)}." for each in found.notes]
    st.markdown("\n".join(lines))


def _show_chart(found: Comparison) -> None:
    drawn = choose_rows(found.rows)
    if drawn.rows.empty:
        st.info("There is nothing to draw: both sides share references alone, which say what the machine did.")
        return
    chosen = st.plotly_chart(
        compare_chart(drawn, found.names),
        key="chart_compare",
        config=CHART_CONFIG,
        alt=compare_alt(found.rows, found.verdicts, len(found.regressions)),
        on_select="rerun",
        selection_mode="points",
    )
    links = st.container()
    st.caption(_caption(drawn))
    with links:
        show_links(found, chosen)


def show_links(found: Comparison, chosen: Any) -> None:
    """Draws where more is told of the point whose mark was clicked; nothing where none was.

    Args:
        found: what is drawn.
        chosen: the chart's selection, whose marks carry the numbers of their point in BASE and in NEW.
    """
    marks = chosen["selection"]["points"] if chosen else []
    numbers = next((mark["customdata"] for mark in marks if mark.get("customdata")), None)
    if numbers is None:
        return
    rows = found.rows[found.rows["point_base"].eq(numbers[0]) & found.rows["point_new"].eq(numbers[1])]
    if rows.empty:  # clicked while other runs were compared
        return
    with st.container(horizontal=True, vertical_alignment="center", key="compare_links"):
        st.markdown(f"**{plain(workload_words(rows.iloc[0].to_dict()))}**", width="content")
        for name, side in (("BASE", found.base), ("NEW", found.new)):
            for each in side.each:
                compare_link.show_to_samples_at(each, rows.head(1), f"{each.label} of {name}" if side.several else name)


def _caption(drawn: Drawn) -> str:
    left_out = []
    if drawn.shapes_left_out:
        left_out.append(
            f"The {drawn.shapes:,} of {count(drawn.shapes + drawn.shapes_left_out, 'shape')} that changed most."
        )
    if drawn.contenders_left_out:
        left_out.append(f"The first {drawn.contenders:,} contenders; the table has {drawn.contenders_left_out:,} more.")
    return " ".join([*left_out, CAPTION])
