"""The names of widgets, session state and URL parameters, in one place.

A widget's key is also its URL parameter; whatever comes from there is validated again when it is used.
"""

from __future__ import annotations

# Derived from the other controls, so it is in no URL.
PRESET = "preset"

# What is measured.
BATCH_SIZE = "batch_size"
SEQ_LEN = "seq_len"
NUM_HEADS = "num_heads"
WIDTH_KIND = "fixed"
D_MODEL = "d_model"
HEAD_DIM = "head_dim"
DTYPE = "dtype"
MODE = "mode"
BIAS = "bias"
CAUSAL = "causal"
DEVICE = "device"
THREADS = "threads"
SEED = "seed"

# How it is measured.
CONTENDERS = "contenders"
REPLICATES = "replicates"
TIME_BUDGET = "budget"
HEAP = "heap"

# What is looked at.
RUN = "run"  # the URL parameter, written by hand: the choice follows the newest run until one is picked
RUN_CHOICE = "run_choice"
TAB = "tab"
X_AXIS = "x"
SERIES = "series"
FACET = "facet"
LOG_X = "log_x"
LOG_Y = "log_y"
LATENCY_AS = "latency_as"
MEMORY_AS = "memory_as"
ERROR_AS = "error_as"
FREEZE = "freeze"

# Kept between reruns of one session, in no URL.
START_ERROR = "start_error"
DRAWN = "drawn"


def held(axis: str) -> str:
    """The key of the choice that holds an axis at one value while others are drawn."""
    return f"at_{axis}"
