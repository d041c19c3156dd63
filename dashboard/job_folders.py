"""Folders for what commands in the background say and write; those of a server that was killed go with the next one."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from profiling.folder_lock import FolderLock, is_free

PREFIX = "mha-bench-job-"
# Between the making of a folder and its lock: one that is so young may be about to be held.
_YOUNG_S = 60.0


class JobFolder:
    """A folder of its own in the one for temporary files, held until it is removed or its process has ended.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self) -> None:
        _remove_left()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = FolderLock(self.path)
        self._lock.acquire()

    def remove(self) -> None:
        """Removes it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def _remove_left() -> None:
    """Removes the folders that nobody holds any more; one of which that cannot be told stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            is_young = time.time() - folder.stat().st_mtime < _YOUNG_S
        except OSError:  # it has gone meanwhile
            continue
        if not is_young and folder.is_dir() and not folder.is_symlink() and is_free(folder):
            shutil.rmtree(folder, ignore_errors=True)
