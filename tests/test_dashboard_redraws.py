"""How often the whole page is drawn while a sweep runs: rows wait, the end does not."""

from __future__ import annotations

from collections.abc import Callable
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
