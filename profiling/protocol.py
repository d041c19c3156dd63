"""The lines between whoever asks (a sweep, a live check) and the measuring child that answers.

One request and one answer per line of JSON. A request is `{"request": name, ...}`; its answer `{"answer": {...}}` or,
where the request itself could not be served, `{"error": sentence}`. What runs at any moment is told by a small file
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
    """What the child was doing when it was last heard of: which pass, and of which contender."""

    phase: str = ""
    contender: str = ""


class Marker:
    """The mapped file that says what runs now. Both sides open it; one writes."""

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size < MARKER_BYTES:
            path.write_bytes(b" " * MARKER_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), MARKER_BYTES)

    def write(self, phase: str, contender: str) -> None:
        """Says that `contender` is about to run in the pass `phase`."""
        text = f"{phase}\t{contender}".encode()[:MARKER_BYTES]
        self._map[:] = text.ljust(MARKER_BYTES)

    def read(self) -> Running:
        """What was last said."""
        phase, _, contender = bytes(self._map).decode("utf-8", errors="replace").strip(" ").partition("\t")
        return Running(phase, contender)

    def close(self) -> None:
        """Gives the mapping back."""
        self._map.close()
