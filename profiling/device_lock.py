"""One measurement per device at a time: the lock, and who holds it.

The lock is on an open file, so it ends with the last process that holds it open: a dead owner is no obstacle, and a
measuring child that outlives its sweep still counts as busy.
"""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from profiling.runs import RunError, now
from profiling.safe_files import write_aside

# A live check takes well under this; a sweep waits for it.
CHECK_PATIENCE_S = 30.0
POLL_S = 0.1
# What takes so long that nobody waits for it.
_LONG = ("sweep", "self-test")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Owner:
    """Who holds a device: a `sweep`, a `self-test` or a live `check`, since when (ISO 8601, UTC), and for which run."""

    kind: str
    device: str
    pid: int
    started_at: str
    run_id: str | None = None
    folder: str | None = None

    @property
    def sentence(self) -> str:
        """Who it is, for a person."""
        what = f"sweep {self.run_id}" if self.run_id else f"a {self.kind}"
        return f"{self.device} is busy since {self.started_at} with {what} (process {self.pid})"


class DeviceBusy(Exception):
    """Someone else measures on the device.

    Attributes:
        owner: who, as far as it is known.
    """

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner.sentence)
        self.owner = owner


class DeviceLock:
    """The lock of one device, held from `acquire` to `release`.

    Attributes:
        fd: the locked descriptor, to be inherited by a measuring child.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.fd: int | None = None

    def acquire(
        self,
        kind: str,
        *,
        run_id: str | None = None,
        folder: Path | None = None,
        patience_s: float = CHECK_PATIENCE_S,
        on_wait: Callable[[Owner], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Takes the lock. Waits up to `patience_s` seconds for a live check; never for a sweep or a self-test.

        `on_wait` is told once whom it waits for; `pause` waits between two tries, and what it raises ends the waiting.

        Raises:
            DeviceBusy: someone else holds it.
            RunError: the lock's file cannot be made.
        """
        fd = _open_lock(self.device)
        try:
            self._wait(fd, time.monotonic() + patience_s, on_wait, pause)
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd
        mine = Owner(
            kind=kind,
            device=self.device,
            pid=os.getpid(),
            started_at=now(),
            run_id=run_id,
            folder=None if folder is None else str(folder.resolve()),
        )
        try:
            write_aside(_owner_path(self.device), json.dumps(dataclasses.asdict(mine)))
        except RunError:
            self.release()
            raise

    def _wait(
        self, fd: int, deadline: float, on_wait: Callable[[Owner], None] | None, pause: Callable[[float], None]
    ) -> None:
        told = False
        while not lock_descriptor(fd, blocking=False):
            holder = _read_owner(self.device)
            if holder.kind in _LONG or time.monotonic() > deadline:
                raise DeviceBusy(holder)
            if on_wait is not None and not told:
                on_wait(holder)
                told = True
            pause(POLL_S)

    def release(self) -> None:
        """Gives the lock back, in the name of a child that inherited it as well."""
        if self.fd is not None:
            _owner_path(self.device).unlink(missing_ok=True)
            unlock_descriptor(self.fd)
            os.close(self.fd)
            self.fd = None


def owner(device: str) -> Owner | None:
    """Who measures on the device now, or None where nobody does."""
    try:
        fd = os.open(_lock_path(device), os.O_RDWR)
    except OSError:
        return None
    try:
        if lock_descriptor(fd, blocking=False):
            unlock_descriptor(fd)
            return None
        return _read_owner(device)
    finally:
        os.close(fd)


def _read_owner(device: str) -> Owner:
    try:
        return Owner(**json.loads(_owner_path(device).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # between taking the lock and saying who
        return Owner(kind="measurement", device=device, pid=0, started_at=now())


def _open_lock(device: str) -> int:
    path = _lock_path(device)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise RunError(f"the device's lock {path} cannot be opened: {error}") from error


def _owner_path(device: str) -> Path:
    return _lock_path(device).with_suffix(".json")


def _lock_path(device: str) -> Path:
    folder = Path(tempfile.gettempdir()) / f"mha-bench-{_user()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise RunError(f"the device's lock cannot be made in {folder}: {error}") from error
    return folder / f"{device.replace(':', '-')}.lock"


def _user() -> str:
    try:
        return str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
    except OSError:
        return "user"
