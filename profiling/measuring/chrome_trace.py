"""A finished profile as a trace for Chrome and Perfetto, without what tells of the machine and its person."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from torch.autograd.profiler import profile

from profiling.costs import MIB
from profiling.units import format_mib

# Of the trace as a whole: the machine's name in its network, and a path of this process's own. A trace is passed on.
_PRIVATE = ("host_name", "traceName")


def chrome_trace(recorded: profile) -> bytes:
    """The trace as one JSON object without line breaks.

    Raises:
        OSError: it cannot be written into the folder for temporary files, as where that is full.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        try:
            exporting: Any = recorded  # whose method has no types
            exporting.export_chrome_trace(str(path))
            trace = json.loads(path.read_bytes())
        # The profiler says nothing where it cannot write: what is not whole is no JSON, or not there at all.
        except (FileNotFoundError, ValueError) as error:
            raise OSError(f"the profiler left no whole trace: {_room_in(path.parent)}") from error
    for name in _PRIVATE:
        trace.pop(name, None)
    return json.dumps(trace, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def kept_trace(trace: bytes) -> Path:
    """The trace in a file of its own in the folder for temporary files.

    Raises:
        OSError: there is no room for it.
    """
    handle, name = tempfile.mkstemp(suffix=".json", prefix="trace-")
    try:
        with open(handle, "wb") as stream:
            stream.write(trace)
    except OSError as error:
        words = f"{error.strerror or error}: {_room_in(Path(name).parent)}"
        Path(name).unlink(missing_ok=True)
        raise OSError(words) from error
    return Path(name)


def _room_in(folder: Path) -> str:
    """How much room there is where a person can make some: above what this process made for itself."""
    free = format_mib(shutil.disk_usage(folder).free / MIB)
    return f"the disk of the folder for temporary files, {Path(tempfile.gettempdir()).parent}, has {free} free"
