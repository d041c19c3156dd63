"""What the fields of `run.json` must be like before anything is made of them: an editor may write anything there.

Grid and settings have rules of their own, which are checked where they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiling.columns import RUN_STATES
from profiling.quoted import quoted
from profiling.workload import require_device, require_threads

# A run's own is a few levels deep. What is thousands deep cannot even be copied or told.
MAX_DEPTH = 50
# Of points, of seconds: more than any run has, and still a number that can be told.
_MAX_NUMBER = 10**12

_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("run_id", "state", "state_reason", "started_at", "updated_at", "device"), (str,)),
    "ended_at": (str, type(None)),
    "host": (str,),
    "threads": (int,),
    "pid": (int,),
    "process_started": (int, float),
    **dict.fromkeys(("grid", "settings", "environment", "sources", "progress"), (dict,)),
}
# An earlier version did not keep them.
_LATER = ("host",)
_COUNTS = ("done", "total", "replicate")


def require_fields(values: Mapping[str, Any]) -> None:
    """Raises TypeError or GridError where a field of `run.json` is missing or cannot be what it should be."""
    for name, kinds in _KINDS.items():
        if name not in values and name not in _LATER:
            raise TypeError(f"it has no field {name}")
        value = values.get(name, "")
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError(f"{name} must not be {quoted(value)}")
    if values["state"] not in RUN_STATES:
        raise TypeError(f"state must be one of {', '.join(RUN_STATES)}, not {quoted(values['state'])}")
    require_threads(values["threads"])
    require_device(values["device"])
    _require_progress(values["progress"])


def require_shallow(value: object) -> None:
    """Raises TypeError where lists and objects lie in each other deeper than anyone can have meant."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inner(outer) if isinstance(inner, list | dict)]
        if not level:
            return
    raise TypeError(f"its lists and objects lie more than {MAX_DEPTH} deep in each other")


def without_broken_letters(value: Any) -> Any:
    """The same lists, objects and texts without the halves of letters that JSON can name, and no file can hold."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [without_broken_letters(inner) for inner in value]
    if isinstance(value, dict):
        return {without_broken_letters(name): without_broken_letters(inner) for name, inner in value.items()}
    return value


def _inner(outer: object) -> list[object]:
    return outer if isinstance(outer, list) else list(outer.values()) if isinstance(outer, dict) else []


def _require_progress(progress: Mapping[str, Any]) -> None:
    for name in _COUNTS:
        number = progress.get(name)
        if type(number) is not int or not 0 <= number <= _MAX_NUMBER:
            raise TypeError(f"progress must hold a whole number {name} of at least 0, not {quoted(number)}")
    if progress["done"] > progress["total"]:
        raise TypeError(f"progress must not have more done than its total {progress['total']}: {progress['done']}")
    if not isinstance(progress.get("label", ""), str):
        raise TypeError(f"progress must hold a text label, not {quoted(progress['label'])}")
    left = progress.get("seconds_left")
    # Compared, not converted: a whole number of JSON may be too large for a float.
    if left is not None and (type(left) not in (int, float) or not -_MAX_NUMBER <= left <= _MAX_NUMBER):
        raise TypeError(f"progress must hold a number of seconds_left or null, not {quoted(left)}")
