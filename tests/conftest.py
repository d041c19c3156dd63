"""What all tests share: temporary files and device locks of their own, so that no run outside disturbs or waits."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tmp_path_factory.getbasetemp()  # made in the usual place, before that changes
    # Short: chromium puts a socket there, and a socket's path may hold 108 bytes.
    folder = tempfile.mkdtemp(prefix="mb-")
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"], tempfile.tempdir = folder, folder
    yield folder
    tempfile.tempdir = before[1]
    if before[0] is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before[0]
    shutil.rmtree(folder, ignore_errors=True)
