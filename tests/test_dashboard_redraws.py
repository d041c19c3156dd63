"""How often the whole page is drawn while a sweep runs: rows wait, the end does not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard import progress_panel, session

RUN = "20261130-060000-abcd"


@pytest.fixture
def is_redrawn(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether a tick draws the whole page again, so long after it was last drawn with 7 bytes of rows."""
    state: dict[str, Any] = {}
    reruns: list[bool] = []
    monkeypatch.setattr(progress_panel.st, "session_state", state)
    monkeypatch.setattr(progress_panel.st, "rerun", lambda: reruns.append(True))

    def ask(
        after_s: float, *, drawing_s: float = 0.0, seen: Any = (11, "running", False), freeze: bool = False
    ) -> bool:
        reruns.clear()
        state.clear()
        state[session.DRAWN] = (RUN, (7, "running", False), 100.0)
        state[session.FREEZE] = freeze
        progress_panel.note_drawn(drawing_s)
        monkeypatch.setattr(progress_panel.time, "monotonic", lambda: 100.0 + after_s)
        monkeypatch.setattr(progress_panel, "_seen", lambda *_, **__: seen)
        progress_panel._redraw_if_due(RUN, None)
        return bool(reruns)

    return ask


def test_rows_wait_a_moment_and_longer_where_drawing_takes_long(is_redrawn: Callable[..., bool]) -> None:
    assert [is_redrawn(after_s) for after_s in (2.9, 3.1)] == [False, True]
    assert [is_redrawn(after_s, drawing_s=0.3) for after_s in (2.9, 3.1)] == [False, True]
    assert [is_redrawn(after_s, drawing_s=2.0) for after_s in (11.9, 12.1)] == [False, True]


def test_the_end_waits_for_nothing_and_nothing_new_draws_nothing(is_redrawn: Callable[..., bool]) -> None:
    assert is_redrawn(0.1, drawing_s=9.0, seen=(11, "finished", False))
    assert not is_redrawn(1000.0, seen=(7, "running", False))
    assert not is_redrawn(1000.0, freeze=True)


@pytest.mark.parametrize(
    ("machine", "error", "redrawn"), [(None, "", False), ("cpu", "", True), (None, "no torch", True)]
)
def test_an_idle_page_is_drawn_again_once_the_device_is_known(
    monkeypatch: pytest.MonkeyPatch, machine: str | None, error: str, redrawn: bool
) -> None:
    reruns: list[bool] = []
    monkeypatch.setattr(progress_panel.st, "rerun", lambda: reruns.append(True))
    monkeypatch.setattr(progress_panel.store, "traces", lambda _: (None, 7))
    checks = SimpleNamespace(machine=machine, machine_error=error)
    monkeypatch.setattr(progress_panel.services, "live_checks", lambda: checks)
    progress_panel._look_out("cpu", (None, 7), True)
    assert bool(reruns) == redrawn
    reruns.clear()
    progress_panel._look_out("cpu", (None, 7), False)
    assert not reruns, "it was known when the page was drawn"
    progress_panel._look_out("cpu", (None, 5), False)
    assert reruns, "a run has changed"
