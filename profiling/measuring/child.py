"""The measuring child: answers one request per line until its input ends.

The protocol has descriptors of its own: what a layer prints goes to standard error and cannot break an answer. torch is
loaded only after the input is watched, so that a child whose asker is gone ends at once even then.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import shutil
import sys
import threading
from pathlib import Path
from typing import IO

from profiling.protocol import Marker, encode

ORPHANED = 3


def main(marker: Path) -> None:
    """Serves requests from standard input to standard output until the input ends."""
    # What torch compiles is compiled anew in each child, and goes with the child's folder.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(_compile_folder(marker))
    requests, answers = _private_descriptors()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests, inbox, marker), daemon=True).start()

    from profiling.measuring.answers import Answerer

    answerer = Answerer(Marker(marker))
    # What is loaded by now stays: no look at what is alive, and no garbage collection, has to go over it again.
    gc.collect()
    gc.freeze()
    while True:
        answers.write(encode(answerer.answer(inbox.get())))
        answers.flush()


def _compile_folder(marker: Path) -> Path:
    return marker.parent / "compiled"


def _private_descriptors() -> tuple[int, IO[bytes]]:
    """Takes standard input and output for the protocol; prints go to standard error, reads find nothing."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return requests, os.fdopen(answers, "wb")


def _read_requests(descriptor: int, inbox: queue.SimpleQueue[bytes], marker: Path) -> None:
    with os.fdopen(descriptor, "rb") as stream:
        for line in stream:
            inbox.put(line)
    # Whoever asked is gone, so nobody can use the measurement in flight, nor tidy up: end at once and free the device.
    shutil.rmtree(_compile_folder(marker), ignore_errors=True)
    with contextlib.suppress(OSError):
        marker.unlink()
        marker.parent.rmdir()
    os._exit(ORPHANED)
