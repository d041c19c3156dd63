"""The lines between whoever asks (a sweep, a live check) and the measuring child that answers.

One request and one answer per line of JSON. A request is `{"request": name, ...}`; its answer `{"answer": {...}}` or,
where the request itself could not be served, `{"error": sentence}`; where there is no memory to answer at all,
`{"is_out_of_memory": true}`. What runs at any moment is told by a small file
mapped by both sides, not by a line: writing to it wakes nobody, so it disturbs no measurement, and it can still be read
when the child is gone.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
from pathlib import Path
from typing import Any

MARKER_BYTES = 512


def encode(message: dict[str, Any]) -> bytes:
    """A message as one line. Infinity stays infinity: an error can be infinite, and must not read as missing."""
    return json.dumps(message, ensure_ascii=True).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The message in a line.

    Raises:
        ValueError: the line is no JSON object.
    """
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError(f"a message must be an object, not {message!r}")
    return message


@dataclasses.dataclass(frozen=True)
class Running:
    """What the child was doing when it was last heard of: which pass, and of which contender.

    `waited_s`: seconds that it waited for a quiet machine since the request began, or soon will have.
    """

    phase: str = ""
    contender: str = ""
    waited_s: float = 0.0


class Marker:
    """The mapped file that says what runs now. Both sides open it; one writes."""

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size < MARKER_BYTES:
            path.write_bytes(b" " * MARKER_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), MARKER_BYTES)
        self._running = Running()

    def write(self, phase: str, contender: str) -> None:
        """Says that `contender` is about to run in the pass `phase`."""
        self._say(dataclasses.replace(self._running, phase=phase, contender=contender))

    def begin(self) -> None:
        """Says that a request begins: nothing of it runs yet, and nothing was waited."""
        self._say(Running("request"))

    def write_waited(self, seconds: float) -> None:
        """Says that the wait for a quiet machine will soon have been so long since the request began."""
        self._say(dataclasses.replace(self._running, waited_s=seconds))

    def read(self) -> Running:
        """What was last said."""
        text = bytes(self._map).decode("utf-8", errors="replace").strip(" ")
        phase, waited_s, contender = (*text.split("\t", 2), "", "")[:3]
        try:
            return Running(phase, contender, float(waited_s or 0))
        except ValueError:  # read while it was being written
            return Running(phase, contender)

    def close(self) -> None:
        """Gives the mapping back."""
        self._map.close()

    def _say(self, running: Running) -> None:
        self._running = running
        text = f"{running.phase}\t{running.waited_s:.3f}\t{running.contender}".encode()[:MARKER_BYTES]
        self._map[:] = text.ljust(MARKER_BYTES)
