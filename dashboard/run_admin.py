"""What a person may do with the run that is shown: name it, keep a note with it, delete it."""

from __future__ import annotations

import streamlit as st

from dashboard import compare_link, note_store, session, store
from dashboard.replicate_panel import EXAMPLE
from dashboard.report_text import code
from profiling.charts.formatting import count, memory, plain
from profiling.run_deletion import delete_run, find_deletable
from profiling.run_names import MAX_NAME, MAX_NOTE, Notes
from profiling.run_notes import name_run, note_run
from profiling.runs import Run, RunError, results_dir

OF_THE_EXAMPLE = "The example comes with the program and stays as it is: it is neither named, noted nor deleted."
BYTES_PER_MIB = 2**20


def show(run: Run) -> None:
    """Draws the button that opens the forms for this run."""
    with st.popover("This run", key="this_run", help="Compare it, name it, keep a note with it, delete it."):
        compare_link.show_to_compare(run)
        if store.folder_of(run).resolve() == EXAMPLE.resolve():
            st.markdown(plain(OF_THE_EXAMPLE))
            return
        _show_texts(run.run_id, note_store.notes_of(run.run_id))
        _show_deletion(run.run_id)


def show_answer() -> None:
    """Draws once what became of what was last asked for."""
    is_done, told = st.session_state.pop(session.RUN_ANSWER, (True, ""))
    if told:
        (st.success if is_done else st.error)(plain(told))


def _show_texts(run_id: str, notes: Notes) -> None:
    if notes.problem:
        st.warning(plain(f"What was written of this run cannot be read: {notes.problem}."))
    # Of another run, or of texts that were changed elsewhere, these are other forms: nothing typed is carried over.
    of_these = f"{run_id}_{note_store.stamp_of(run_id)}"
    with st.form(f"run_texts_{of_these}", border=False):
        st.text_input("Name", notes.name or "", MAX_NAME, key=f"run_name_{of_these}", placeholder="before the rewrite")
        st.text_area("Note", notes.note or "", max_chars=MAX_NOTE, key=f"run_note_{of_these}", height=110)
        st.form_submit_button(
            "Save",
            key="save_texts",
            on_click=_save,
            args=(run_id, notes, f"run_name_{of_these}", f"run_note_{of_these}"),
            help="A run is found by its name wherever its id is asked for; an empty text takes name or note away.",
        )


def _show_deletion(run_id: str) -> None:
    """The form that asks for the run's id; where the run must not be deleted, the reason in its place."""
    st.markdown("**Delete this run**")
    try:
        found = find_deletable(run_id)
    except RunError as error:
        st.caption(f"{plain(str(error))}.")
        return
    size = memory(found.num_bytes / BYTES_PER_MIB)
    st.caption(f"Removes {count(found.num_files, 'file')}, {size}, for good. To do so, type its id: {code(run_id)}")
    with st.form(f"run_deletion_{run_id}", border=False):
        st.text_input("Its id", key=f"run_typed_{run_id}", label_visibility="collapsed", placeholder="its id")
        st.form_submit_button(
            "Delete for good", key="delete_run", on_click=_delete, args=(run_id, f"run_typed_{run_id}")
        )


def _save(run_id: str, before: Notes, name_key: str, note_key: str) -> None:
    """Writes what was changed, and nothing else."""
    name, note = st.session_state[name_key].strip(), st.session_state[note_key].strip()
    folder = results_dir() / run_id
    done: list[str] = []
    try:
        if name != (before.name or ""):
            name_run(folder, name)
            done.append(f"is called {name}" if name else "has no name")
        if note != (before.note or ""):
            note_run(folder, note)
            done.append("keeps the note" if note else "has no note")
    except RunError as error:
        _answer(f"{_saved(run_id, done)} Not saved: {error}.", is_done=False)
    else:
        _answer(_saved(run_id, done) or "Nothing was changed.")


def _saved(run_id: str, done: list[str]) -> str:
    return f"Run {run_id} now {' and '.join(done)}." if done else ""


def _delete(run_id: str, typed_key: str) -> None:
    if st.session_state[typed_key].strip() != run_id:
        _answer(f"Run {run_id} is not deleted: what was typed is not its id.", is_done=False)
        return
    try:
        delete_run(run_id)
    except RunError as error:
        _answer(f"Not deleted: {error}.", is_done=False)
        return
    store.pick(None)
    _answer(f"Run {run_id} is deleted.")


def _answer(told: str, *, is_done: bool = True) -> None:
    st.session_state[session.RUN_ANSWER] = is_done, told
