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
COMPILED = "compiled"
REPLICATES = "replicates"
TIME_BUDGET = "budget"
HEAP = "heap"
# Not in the URL: nobody but the person before the page says that something is meant in spite of what speaks against it.
ANYWAY = "anyway"
QUIET_WAIT = "quiet_wait"
REFERENCE = "reference"

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
TABLE_ORDER = "table_order"
TABLE_DESCENDS = "table_descends"
TABLE_PAGE = "table_page"
REPEAT = "repeat"

# The one layer that is looked at, and at which shape.
LAYER = "layer"
LAYER_D_MODEL = "layer_d_model"
LAYER_NUM_HEADS = "layer_num_heads"
LAYER_BATCH_SIZE = "layer_batch_size"
LAYER_SEQ_LEN = "layer_seq_len"
LAYER_DTYPE = "layer_dtype"
LAYER_CAUSAL = "layer_causal"
LAYER_BATCH_FIRST = "layer_batch_first"

# Kept between reruns of one session, in no URL.
UNKNOWN_LAYERS = "unknown_layers"
ADDRESS_COMPLAINTS = "address_complaints"
ADDRESS_VALUES = "address_values"
START_ERROR = "start_error"
RUN_ANSWER = "run_answer"
DRAWN = "drawn"
DRAWING_S = "drawing_s"


def sample(axis: str) -> str:
    """The key of the choice of one axis's value for the point whose samples are shown."""
    return f"sample_{axis}"


def held(axis: str) -> str:
    """The key of the choice that holds an axis at one value while others are drawn."""
    return f"at_{axis}"
