"""The measuring child: answers one request per line until its input ends.

The protocol has descriptors of its own: what a layer prints goes to standard error and cannot break an answer. torch is
loaded only after the input is watched, so that a child whose asker is gone ends at once even then.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import queue
import sys
import threading
from pathlib import Path
from typing import IO

from profiling.leftovers import end_started, remove_folder
from profiling.protocol import Marker, encode

ORPHANED, GIVEN_UP = 3, 4
# Of 1000 at most. What the kernel ends when memory is short is then this process, or what a layer has started, which
# inherits it: never the supervisor or the server.
OOM_SCORE = 500
_OWN_OOM_SCORE = Path("/proc/self/oom_score_adj")
# Made before it is needed: then there may be no memory for it.
_OUT_OF_MEMORY = encode({"is_out_of_memory": True})


def main(marker: Path) -> None:
    """Serves requests from standard input to standard output until the input ends."""
    own = os.getpid()
    offer_to_the_oom_killer()
    # What torch compiles is compiled anew in each child, and goes with the child's folder.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(marker.parent / "compiled")
    # So do the temporary files of a compiler, or of a layer, that is ended in the middle.
    os.environ["TMPDIR"] = str(marker.parent)
    # Torch's profiler says on standard error that it begins and ends: no last words of a layer that dies.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    requests, answers = _private_descriptors()
    faulthandler.enable(all_threads=False)  # where a signal came is part of the reason
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests, inbox, marker), daemon=True).start()

    from profiling.measuring.answers import Answerer
    from profiling.measuring.contenders.process_settings import ProcessSpoiled

    answerer = Answerer(Marker(marker))
    # What is loaded by now stays: no look at what is alive, and no garbage collection, has to go over it again.
    gc.collect()
    gc.freeze()
    while True:
        line = inbox.get()
        try:
            answer = encode(answerer.answer(line))
        except MemoryError:
            answer = _OUT_OF_MEMORY
        except (KeyboardInterrupt, ProcessSpoiled) as error:  # a layer's, both: nobody types at this process
            _say_last_words(error)
            os._exit(GIVEN_UP)
        if os.getpid() != own:
            os._exit(ORPHANED)  # a copy that a layer made by a fork and let return: it has nobody to answer to
        answers.write(answer)
        answers.flush()


def offer_to_the_oom_killer(path: Path = _OWN_OOM_SCORE) -> None:
    """Lets the kernel take this process before others when memory is short; Linux only. Raising it needs no rights."""
    with contextlib.suppress(OSError, ValueError):
        path.write_text(str(max(OOM_SCORE, int(path.read_text()))))


def _say_last_words(error: BaseException) -> None:
    from profiling.measuring.contenders.loading import words_of

    with contextlib.suppress(BaseException):  # a person's exception may do anything when it is shown
        os.write(2, f"\n{words_of(error)}\n".encode(errors="replace"))


def _private_descriptors() -> tuple[int, IO[bytes]]:
    """Takes standard input and output for the protocol; prints go to standard error, reads find nothing.

    What a layer starts inherits none of them, nor the lock of the device: it could hold that when all else has ended.
    """
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):  # there is none of that number
            os.set_inheritable(descriptor, False)
    return requests, os.fdopen(answers, "wb")


def _read_requests(descriptor: int, inbox: queue.SimpleQueue[bytes], marker: Path) -> None:
    with os.fdopen(descriptor, "rb") as stream:
        for line in stream:
            inbox.put(line)
    # Whoever asked is gone, so nobody can use the measurement in flight, nor tidy up: end at once and free the device.
    end_started(str(marker.parent), os.getpid())
    remove_folder(marker.parent)
    os._exit(ORPHANED)
