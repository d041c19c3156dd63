"""The short files in which Linux tells what it does: under /proc, /sys and of control groups."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """What one says, without blanks around it; nothing where it is not there or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
