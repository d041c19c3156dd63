"""Layers that misbehave, for measuring children: which one does what is told by an environment variable.

`plant_environment` gives the environment for a child; in the child, a `sitecustomize` made by it lets
`profiling.measuring.contenders.known` load, and then calls `plant` on it. Nothing in the package knows of this.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

VARIABLE = "MHA_BENCH_PLANTED_FAULTS"

SITECUSTOMIZE = """
import importlib.util, os, sys

class Hook:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "profiling.measuring.contenders.known":
            return None
        sys.meta_path.remove(Hook)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            sys.path.append({tests!r})
            import planted_layers
            planted_layers.plant(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Hook)
"""


def plant_environment(folder: Path, faults: dict[str, str]) -> dict[str, str]:
    """What to add to the environment of a child. `faults` maps `contender@seq_len` to `fault in pass`."""
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE.format(tests=str(Path(__file__).parent)), encoding="utf-8")
    return {"PYTHONPATH": str(folder), VARIABLE: json.dumps(faults)}


def plant(contenders: Any) -> None:
    """Replaces `make_contender`, in the child."""
    from profiling.protocol import Marker

    faults = json.loads(os.environ[VARIABLE])
    make, write, phase = contenders.make_contender, Marker.write, [""]

    def remember(marker: Marker, said: str, contender: str) -> None:
        phase[0] = said
        write(marker, said, contender)

    def make_planted(name: str, workload: Any, weights: Any, x: Any) -> Any:
        contender = make(name, workload, weights, x)
        fault, _, wanted = faults.get(f"{name}@{workload.seq_len}", "").partition(" in ")

        def misbehaving(run: Any) -> Any:
            return lambda: FAULTS[fault](run) if phase[0] == wanted else run()

        if not fault:
            return contender
        return dataclasses.replace(contender, forward=misbehaving(contender.forward), call=misbehaving(contender.call))

    contenders.make_contender = make_planted
    Marker.write = remember  # type: ignore[method-assign]


def kill(_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(_: Any) -> Any:
    while True:
        time.sleep(60)


def hang_with_a_child_of_its_own(_: Any) -> Any:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "mha-bench grandchild"])
    hang(_)


def exit_with_success(_: Any) -> Any:
    os._exit(0)


def close_every_descriptor(_: Any) -> Any:
    os.closerange(3, 256)
    hang(_)


def raise_error(_: Any) -> Any:
    raise RuntimeError("planted [/red] \ud800")


def be_out_of_memory(_: Any) -> Any:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes")


def print_megabytes(run: Any) -> Any:
    print("x" * 2**21)
    sys.stdout.flush()
    os.write(1, b'{"answer": "forged"}\n' * 10_000)
    os.write(2, b"no line end" * 100_000)
    return run()


def give_nan(run: Any) -> Any:
    return run() * float("nan")


FAULTS = {
    "kill": kill,
    "hang": hang,
    "hang with child": hang_with_a_child_of_its_own,
    "exit 0": exit_with_success,
    "close descriptors": close_every_descriptor,
    "raise": raise_error,
    "out of memory": be_out_of_memory,
    "print": print_megabytes,
    "nan": give_nan,
}
