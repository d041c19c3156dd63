"""Which runs are compared: those of the URL, those last picked, or the two newest of one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard import baseline_file, note_store, run_picker, session
from dashboard.compare_store import MOST_FURTHER
from dashboard.compare_wish import Wish
from profiling.charts.formatting import plain, shortened
from profiling.compare.comparing import FAIL_ABOVE
from profiling.runs import Run, RunError, find_run_folder, results_dir

SIDES = {session.BASE: "BASE, what was before", session.NEW: "NEW, what is now"}
FURTHER = {session.BASE: session.BASE_ALSO, session.NEW: session.NEW_ALSO}
# Per cent.
MOST_FAIL_ABOVE = 1000.0


def show(runs: Sequence[Run]) -> Wish:
    """Draws the choices of both sides, of at least one run, and returns what is chosen."""
    by_id = {run.run_id: run for run in runs}
    names = note_store.names_of_runs(by_id)
    wanted = {side: _wanted_further(side) for side in SIDES}  # before the address names the sides themselves
    base, new, complaints = choose(runs, *(_wanted(side) for side in SIDES))
    also = {side: find_further(runs, side, wanted[side], complaints) for side in SIDES}
    for complaint in complaints:
        st.warning(plain(complaint))
    default = choose(runs, None, None)[:2]
    # The newest two are followed until others are picked; the URL names both all the same, so that it can be sent.
    chosen = {side: (run, *also[side]) for side, run in zip(SIDES, (base, new), strict=True)}
    ids = {side: [run.run_id for run in each] for side, each in chosen.items()}
    _keep(ids, is_picked=(base, new) != default or any(also.values()))
    columns = st.columns(2)
    for place, side in zip(columns, SIDES, strict=True):
        with place:
            _show_side(side, chosen[side][0], by_id, names)
            _show_further(side, ids, by_id, names)
    with columns[0]:
        baseline = baseline_file.show()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare_choice"):
        fail_above = _choose_threshold()
        st.button(
            "⇄ Swap",
            key="swap_sides",
            help="What was before becomes what is now.",
            on_click=_keep,
            args=({session.BASE: ids[session.NEW], session.NEW: ids[session.BASE]},),
            disabled=baseline is not None,
        )
    return Wish(
        base=base,
        new=new,
        base_also=also[session.BASE],
        new_also=also[session.NEW],
        names=names,
        fail_above=fail_above,
        baseline=baseline,
    )


def choose(runs: Sequence[Run], base: str | None, new: str | None) -> tuple[Run, Run, list[str]]:
    """BASE and NEW, and a sentence for each that was asked for and is not there.

    Args:
        runs: at least one, the newest first.
        base: the id or the name that was asked for; None for whatever goes with NEW.
        new: likewise; where neither is asked for, the two newest of the same device.
    """
    complaints: list[str] = []
    found_base, found_new = (_find(runs, wanted, complaints) for wanted in (base, new))
    if found_new is None:
        found_new = _default_new(runs, found_base)
    if found_base is None:
        found_base = _default_base(runs, found_new)
    return found_base, found_new, complaints


def find_further(runs: Sequence[Run], side: str, wanted: Sequence[str], complaints: list[str]) -> tuple[Run, ...]:
    """The further runs of a side, each once, as many as the page compares; `complaints` gets a sentence of others."""
    found = [run for each in dict.fromkeys(wanted) if (run := _find(runs, each, complaints)) is not None]
    once = list({run.run_id: run for run in found}.values())
    if len(once) > MOST_FURTHER:
        complaints.append(
            f"The link names {len(once):,} further runs of {side.upper()}, of which the page compares the first "
            f"{MOST_FURTHER}: the command line takes all"
        )
    return tuple(once[:MOST_FURTHER])


def _find(runs: Sequence[Run], wanted: str | None, complaints: list[str]) -> Run | None:
    if not wanted:
        return None
    try:
        run_id = find_run_folder(wanted, results_dir()).name
    except RunError as error:
        complaints.append(f"The link names a run that cannot be compared: {error}.")
        return None
    found = next((run for run in runs if run.run_id == run_id), None)
    if found is None:
        complaints.append(f"The link names a run that cannot be compared: {run_id} cannot be read.")
    return found


def _default_new(runs: Sequence[Run], base: Run | None) -> Run:
    """The newest run that holds rows and has one beside it to be compared with."""
    with_rows = [run for run in runs if run.progress.done] or list(runs)
    others = [run for run in with_rows if base is None or run.run_id != base.run_id]
    if base is not None:
        return next((run for run in others if _device(run) == _device(base)), next(iter(others), base))
    devices = [_device(run) for run in others]
    return next((run for run in others if devices.count(_device(run)) > 1), others[0])


def _default_base(runs: Sequence[Run], new: Run) -> Run:
    """The run before NEW on the same device; where there is none, one after it, or one of another device."""
    with_rows = [run for run in runs if run.progress.done and run.run_id != new.run_id]
    place = next((place for place, run in enumerate(runs) if run.run_id == new.run_id), 0)
    older = {run.run_id for run in runs[place + 1 :]}
    ordered = sorted(with_rows, key=lambda run: (_device(run) != _device(new), run.run_id not in older))
    return ordered[0] if ordered else new


def _device(run: Run) -> tuple[str, str]:
    return run.device, str(run.environment.get("device_name"))


def _show_side(side: str, run: Run, by_id: Mapping[str, Run], names: Mapping[str, str]) -> None:
    key = _choice_key(side)
    st.session_state[key] = run.run_id
    st.selectbox(
        SIDES[side],
        list(by_id),
        format_func=lambda run_id: run_picker.label(by_id[run_id], names.get(run_id)) if run_id in by_id else run_id,
        key=key,
        on_change=_picked,
    )
    st.caption(plain(shortened(run_picker.conditions(run), 240)))
    run_picker.show_note(run)


def _show_further(
    side: str, ids: Mapping[str, Sequence[str]], by_id: Mapping[str, Run], names: Mapping[str, str]
) -> None:
    """Draws the choice of further runs of a side; those that stand somewhere already are not offered once more."""
    key, also = _choice_key(FURTHER[side]), list(ids[side][1:])
    taken = {run_id for each in ids.values() for run_id in each}
    options = [run_id for run_id in by_id if run_id in also or run_id not in taken]
    st.session_state[key] = also
    st.multiselect(
        f"Further runs of {side.upper()}",
        options,
        format_func=lambda run_id: run_picker.label(by_id[run_id], names.get(run_id)) if run_id in by_id else run_id,
        key=key,
        on_change=_picked,
        max_selections=MOST_FURTHER,
        placeholder="None" if options else "There is no other run",
        disabled=not options,
        help="Runs of the same, measured once more: they show how far whole runs differ, and the intervals allow for "
        "it. What fails in one of NEW fails.",
    )


def _choose_threshold() -> float:
    percent = st.number_input(
        "A change is a regression above, %",
        min_value=0.0,
        max_value=MOST_FAIL_ABOVE,
        value=100 * FAIL_ABOVE,
        step=1.0,
        format="%g",
        key=session.FAIL_ABOVE,
        bind="query-params",
        width=240,
        help="And only where the interval that holds all rows compared together lies wholly beyond the noise.",
    )
    return percent / 100


def _choice_key(side: str) -> str:
    return f"{side}_choice"


def _wanted(side: str) -> str | None:
    wanted = st.query_params.get(side) or st.session_state.get(side)
    return None if wanted is None else str(wanted)


def _wanted_further(side: str) -> Sequence[str]:
    # A link to other runs does not mean those that were picked beside earlier ones.
    if any(name in st.query_params for name in SIDES):
        return st.query_params.get_all(FURTHER[side])
    return st.session_state.get(FURTHER[side]) or []


def _keep(ids: Mapping[str, Sequence[str]], *, is_picked: bool = True) -> None:
    """Compares these from now on, side by side: in the URL, and where they were picked in this session too."""
    for side, (first, *also) in ids.items():
        for name, value in ((side, [first]), (FURTHER[side], also)):
            if st.query_params.get_all(name) != value:
                st.query_params[name] = value
        st.session_state[side] = first if is_picked else None
        st.session_state[FURTHER[side]] = also if is_picked else None


def _picked() -> None:
    choices = {name: st.session_state[_choice_key(name)] for side in SIDES for name in (side, FURTHER[side])}
    _keep({side: [choices[side], *choices[FURTHER[side]]] for side in SIDES})
