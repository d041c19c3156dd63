"""Compare: any two runs, what changed from one to the other, and what of it may be claimed."""

from __future__ import annotations

import time

import streamlit as st

from dashboard import address, compare_choice, compare_panel, compare_progress, compare_store, run_picker, session
from dashboard.compare_store import Comparing
from dashboard.compare_wish import Wish
from profiling.charts.formatting import duration, plain
from profiling.compare.comparing import ComparisonRefused
from profiling.compare.sides import CompareError
from profiling.run_list import list_runs
from profiling.runs import RunError, results_dir

TICK_S = 1.0


def show() -> None:
    """Draws the view from top to bottom."""
    address.clean()
    st.title("Compare", anchor=False)
    st.caption(
        "What became slower from one run to another, beyond noise? Verdicts rest on the time relative to the reference "
        "measured beside it, so that another day's machine cancels."
    )
    listing = list_runs(results_dir())
    if listing.runs:
        wish = compare_choice.show(listing.runs)
        address.show()
        _show_comparison(wish)
    else:
        st.info("There are no runs yet: *Measure* makes one, and a second to compare it with.")
    run_picker.show_unreadable(listing.unreadable)


def _show_comparison(wish: Wish) -> None:
    """The answer; while it is being made, a fragment that looks for it, and the answer before it where there is one."""
    consent, progress, result = st.container(), st.container(), st.container()
    key = session.compare_anyway(*(" ".join(side) for side in wish.words))
    is_meant = bool(st.session_state.get(key))
    comparisons, question = compare_store.comparisons(), wish.question(anyway=is_meant)
    asked = comparisons.ask(question)
    is_there = asked.wait(compare_store.WAIT_S)
    shown = asked if is_there else comparisons.last_answer(question)
    if not is_there:
        with result:
            st.fragment(_watch, run_every=TICK_S)(asked, is_told=shown is None)
    if shown is None:
        with consent:
            if is_meant:  # kept, though it is not known yet whether it is needed
                _show_consent(key)
        return
    with progress:
        compare_progress.show(wish, asked, shown.future.result() if shown.is_answered else None)
    is_marked = False
    with result:
        try:
            found = shown.future.result()
        except ComparisonRefused as refusal:
            is_marked = True
            st.warning(f"Not compared: {plain(str(refusal))}.")
            compare_panel.show_differences(refusal.differences)
        except (CompareError, RunError) as error:
            st.error(f"Not compared: {plain(str(error))}.")
            return
        else:
            is_marked = found.is_marked
            compare_panel.show(found)
        compare_panel.show_command(
            *wish.words,
            wish.fail_above,
            anyway=is_marked and is_meant,
            is_file=wish.baseline is not None,
        )
    if is_marked:
        with consent:
            _show_consent(key)


def _show_consent(key: str) -> None:
    st.checkbox(
        "Compare all the same",
        key=key,
        help="The result is marked: what changed may be what else differs, and not the layer.",
    )


def _watch(asked: Comparing, *, is_told: bool) -> None:
    if asked.future.done():
        st.rerun()
    if not is_told:
        return
    waited = time.monotonic() - asked.began
    st.info(f"The runs are being read and compared, for {duration(waited)} now. A big run takes some seconds …")
