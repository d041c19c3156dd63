"""One measurement per device at a time: the lock, and who holds it.

The lock is on an open file, so it ends with the last process that holds it open: a dead owner is no obstacle, and a
measuring child that outlives its sweep still counts as busy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from profiling.runs import RunError, is_alive, now, own_start
from profiling.safe_files import reason_of, write_aside

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
    process_started: float = 0.0

    def __post_init__(self) -> None:
        """Refuses with TypeError what no owner writes: whatever lies in the file is shown to people."""
        texts = (self.kind, self.device, self.started_at, self.run_id or "", self.folder or "")
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"an owner is told in text, not {texts!r}")
        if type(self.pid) is not int or not isinstance(self.process_started, int | float):
            raise TypeError(f"an owner's process is told in numbers, not {self.pid!r}, {self.process_started!r}")

    @property
    def is_known(self) -> bool:
        """Whether it has said who it is."""
        return self.pid > 0

    @property
    def is_there(self) -> bool:
        """Whether the process that took the device still runs; what it started may hold it a moment longer."""
        return self.is_known and is_alive(self.pid, self.process_started)

    @property
    def run_name(self) -> str | None:
        """What the run is called: a step of a search with the search's folder, since its name alone says little."""
        if self.run_id is None or self.folder is None or not Path(self.folder).parent.name.endswith("-crossover"):
            return self.run_id
        return f"{Path(self.folder).parent.name}/{self.run_id}"

    @property
    def sentence(self) -> str:
        """Who it is, for a person."""
        if not self.is_known:
            return f"{self.device} is busy with a measurement that does not say whose it is"
        what = f"sweep {self.run_name}" if self.run_id else f"a {self.kind}"
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
        """Takes the lock. Waits up to `patience_s` seconds for a live check; never for a living sweep or self-test.

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
        try:
            mine = Owner(
                kind=kind,
                device=self.device,
                pid=os.getpid(),
                started_at=now(),
                run_id=run_id,
                folder=None if folder is None else str(folder.resolve()),
                process_started=own_start(),
            )
            write_aside(_owner_path(self.device), json.dumps(dataclasses.asdict(mine)))
        except BaseException:
            self.release()
            raise

    def _wait(
        self, fd: int, deadline: float, on_wait: Callable[[Owner], None] | None, pause: Callable[[float], None]
    ) -> None:
        told = False
        while not self._try(fd):
            holder = _read_owner(self.device)
            # A sweep that was killed leaves its name behind, and a child that ends within moments.
            if (holder.kind in _LONG and holder.is_there) or time.monotonic() > deadline:
                raise DeviceBusy(holder)
            if on_wait is not None and not told and holder.is_known:
                on_wait(holder)
                told = True
            pause(POLL_S)

    def _try(self, fd: int) -> bool:
        try:
            return bool(lock_descriptor(fd, blocking=False))
        except OSError as error:
            path = _lock_path(self.device)
            raise RunError(f"the device's lock {path} cannot be taken: {reason_of(error)}") from error

    def release(self) -> None:
        """Gives the lock back, in the name of a child that inherited it as well."""
        if self.fd is not None:
            with contextlib.suppress(OSError, RunError):  # the folder of the locks may be gone
                _owner_path(self.device).unlink(missing_ok=True)
            unlock_descriptor(self.fd)
            os.close(self.fd)
            self.fd = None


def owner(device: str) -> Owner | None:
    """Who measures on the device now, or None where nobody does, or where there is no lock to be had."""
    try:
        fd = os.open(_lock_path(device), os.O_RDWR)
    except (OSError, RunError):
        return None
    try:
        if lock_descriptor(fd, blocking=False):
            unlock_descriptor(fd)
            return None
        return _read_owner(device)
    except OSError:
        return None
    finally:
        os.close(fd)


def owners() -> list[Owner]:
    """Who measures now, on whichever device of this machine."""
    try:
        names = sorted(path.stem for path in _locks_folder().glob("*.lock"))
    except (OSError, RunError):
        return []
    return [found for found in map(owner, names) if found is not None]


def _read_owner(device: str) -> Owner:
    try:
        return Owner(**json.loads(_owner_path(device).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):  # between taking the lock and saying who; or no owner's
        return Owner(kind="measurement", device=device, pid=0, started_at="")


def require_locks() -> None:
    """Raises RunError, one sentence, where no device can be locked: before anything is started for it."""
    _locks_folder()


def _open_lock(device: str) -> int:
    path = _lock_path(device)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise RunError(f"the device's lock {path} cannot be opened: {reason_of(error)}") from error


def _owner_path(device: str) -> Path:
    return _lock_path(device).with_suffix(".json")


def _lock_path(device: str) -> Path:
    return _locks_folder() / f"{device.replace(':', '-')}.lock"


def _locks_folder() -> Path:
    """The folder of this user's locks. In a place where all may write, another user may have put something there."""
    try:
        folder = Path(tempfile.gettempdir()) / f"mha-bench-{_user()}"
    except OSError as error:
        raise RunError(f"the device's lock cannot be made: {reason_of(error)}; set TMPDIR to a folder") from error
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise RunError(f"the device's lock cannot be made in {folder}: {reason_of(error)}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise RunError(f"the device's lock cannot be made: {folder} must be a folder, not a file or a link; remove it")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise RunError(
            f"the device's lock cannot be made: {folder} belongs to another user (uid {found.st_uid}); "
            "have it removed, or set TMPDIR to a folder of one's own"
        )
    if os.name == "posix" and found.st_mode & 0o022:  # ours, and open to others: they could put files of theirs there
        folder.chmod(0o700)
    return folder


def _user() -> str:
    try:
        return str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
    except OSError:
        return "user"
