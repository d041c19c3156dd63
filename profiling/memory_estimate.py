"""What a workload, or a check, will hold in memory at once, guessed beforehand, and how much is free for it.

Fitted to the largest resident size of a measuring child over 22 workloads (both heaps, modes, explicit and fused, three
dtypes, 0.5 to 4 GiB): right within a third in most, seldom too low. A layer of one's own may hold more than that.
"""

from __future__ import annotations

import psutil

from profiling.cgroup_limits import memory_room_mib
from profiling.costs import ELEMENT_BYTES, MIB, NUM_PROJECTIONS
from profiling.layers import inner_of
from profiling.settings import SweepSettings
from profiling.units import format_mib
from profiling.workload import GridError, Workload

# A process with torch loaded, what its profilers keep, and what lies between blocks in use.
CHILD_BASE_MIB = 400.0
# How many times the scores (B, H, S, S) an explicit layer holds at its dearest moment: by heap, then by mode. A pinned
# heap keeps what is freed, and cannot always use it again for the next block.
SCORE_COPIES = {
    "pinned": {"inference": 4.0, "training": 8.0},
    "as-is": {"inference": 2.5, "training": 4.5},
}
# How many tensors of the input's size a call holds; and each contender its input and the output that is compared.
TOKEN_COPIES = {"inference": 8.0, "training": 26.0}
TOKENS_PER_LAYER = 2.0
# The oracle's input, keys and values in float64, and copies of them as its products want them.
ORACLE_TOKEN_COPIES = 5.0
# Its scores are computed in blocks; three of 32 MiB at most.
ORACLE_SCORES_MIB = 96.0
# Accelerators whose memory is not the machine's own: torch refuses there what does not fit, and nothing else suffers.
DEVICES_WITH_OWN_MEMORY = ("cuda", "xpu")

# A check at one shape: the official layer's scores in its own calls and in their gradients; tensors of the input's
# size; weights, among them the oracle's and those of the layers into which they are read.
CHECK_SCORE_COPIES = 2.5
CHECK_TOKEN_COPIES = 25.0
CHECK_WEIGHT_COPIES = 5.0


def workload_memory_mib(workload: Workload, settings: SweepSettings) -> float:
    """A guess at what one workload holds at once: every contender's weights, the dearest call, and the oracle."""
    size = ELEMENT_BYTES[workload.dtype]
    b, s, d, h = workload.batch_size, workload.seq_len, workload.d_model, workload.num_heads
    tokens, weights, scores = b * s * d, NUM_PROJECTIONS * d * d, b * h * s * s
    num_layers = len(settings.contenders) + len(settings.references)
    call = (TOKEN_COPIES[workload.mode] + TOKENS_PER_LAYER * num_layers) * tokens * size
    if any(not inner_of(name).endswith("-fused") for name in settings.contenders):
        call += SCORE_COPIES[settings.heap][workload.mode] * scores * size
    layers = (num_layers + 1) * weights * size
    oracle = (ORACLE_TOKEN_COPIES * tokens + weights) * ELEMENT_BYTES["float64"]
    oracle_scores_mib = min(ORACLE_SCORES_MIB, 3 * scores * ELEMENT_BYTES["float64"] / MIB)
    return (layers + call + oracle) / MIB + oracle_scores_mib


def check_memory_mib(workload: Workload) -> float:
    """A guess at what the check of one layer at this shape holds at once, with its process."""
    b, s, d, h = workload.batch_size, workload.seq_len, workload.d_model, workload.num_heads
    scores, tokens, weights = b * h * s * s, b * s * d, NUM_PROJECTIONS * d * d
    elements = CHECK_SCORE_COPIES * scores + CHECK_TOKEN_COPIES * tokens + CHECK_WEIGHT_COPIES * weights
    return CHILD_BASE_MIB + elements * ELEMENT_BYTES[workload.dtype] / MIB


def require_room_for_check(workload: Workload, device: str) -> None:
    """Raises GridError where a check at this shape needs more memory than is free."""
    need, free = check_memory_mib(workload), free_memory_mib(device)
    if free is not None and need > free:
        raise GridError(
            f"a check at {workload.label} needs about {format_mib(need)} of memory, of which {format_mib(free)} are "
            "free: check a smaller shape, or give --anyway"
        )


def free_memory_mib(device: str = "cpu") -> float | None:
    """Memory that a measuring process may take: what the system has left, or the container's limit where that is less.

    None for a device with memory of its own, and where neither is told.
    """
    if device.partition(":")[0] in DEVICES_WITH_OWN_MEMORY:
        return None
    room = memory_room_mib()
    try:
        free = psutil.virtual_memory().available / MIB
    except (psutil.Error, OSError):  # no /proc, or none that may be read
        return room
    return free if room is None else min(free, room)
