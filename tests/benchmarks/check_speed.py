"""How long a check takes once torch is loaded: of a right layer, of a known fault, of an unknown one; and the planting.

Run it on a machine that does nothing else: `python tests/benchmarks/check_speed.py`. Aims: 2 s at d_model 64, diagnosis
included; 15 s at d_model 1024 and seq_len 1024; 1 s for all planted faults. Exit status 1 where an aim is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mha import check_consistency
from mha.checking.planted import PLANTED, PlainAttention, planted_faults_caught

LARGE = {"d_model": 1024, "num_heads": 16, "seq_len": 1024}
LAYERS = {
    "right": PlainAttention,
    "known fault": PLANTED["scale-d-model"],
    "unknown fault": type("Unknown", (PlainAttention,), {"scaled": lambda self, scores: scores * 0.33}),
}


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> int:
    check_consistency(PlainAttention)  # what torch loads at a first call is not the check's
    missed = 0
    for sizes, aim in (({}, 2.0), (LARGE, 15.0)):
        for name, layer in LAYERS.items():
            took = seconds(lambda layer=layer, sizes=sizes: check_consistency(layer, **sizes))
            missed += took > aim
            print(f"{name:14} d_model {sizes.get('d_model', 64):5}: {took:.2f} s (aim {aim:g} s)")
    took = seconds(planted_faults_caught)
    missed += took > 1.0
    print(f"all planted faults: {took:.2f} s (aim 1 s)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
