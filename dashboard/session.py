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

# Whose operators are looked at, and at which shape.
OPERATORS_ONE = "op_one"
OPERATORS_OTHER = "op_other"
OPERATORS_BATCH_SIZE = "op_batch_size"
OPERATORS_SEQ_LEN = "op_seq_len"
OPERATORS_NUM_HEADS = "op_num_heads"
OPERATORS_D_MODEL = "op_d_model"
OPERATORS_DTYPE = "op_dtype"
OPERATORS_MODE = "op_mode"
OPERATORS_BIAS = "op_bias"
OPERATORS_CAUSAL = "op_causal"

# What is searched afresh, beside a run's limits.
CROSSOVER_ONE = "cross_one"
CROSSOVER_OTHER = "cross_other"
CROSSOVER_AXIS = "cross_axis"
FITS_ONE = "fits_one"

# Which runs are compared: URL parameters, written by hand as that of the run is.
BASE = "base"
NEW = "new"
BASE_ALSO = "base_also"
NEW_ALSO = "new_also"
FAIL_ABOVE = "fail_above"
COMPARE_PAGE = "compare_page"
BASELINE = "baseline_file"

# Kept between reruns of one session, in no URL.
UNKNOWN_LAYERS = "unknown_layers"
ADDRESS_COMPLAINTS = "address_complaints"
ADDRESS_VALUES = "address_values"
START_ERROR = "start_error"
PROFILE_ERROR = "profile_error"
SEARCH_ERROR = "search_error"
CHOSEN_POINT = "chosen_point"
OPERATORS_BEGAN = "operators_began"
RUN_ANSWER = "run_answer"
CROSSOVER_RUNS = "cross_runs"
DRAWN = "drawn"
DRAWING_S = "drawing_s"


def sample(axis: str) -> str:
    """The key of the choice of one axis's value for the point whose samples are shown."""
    return f"sample_{axis}"


def crossover_end(end: str, axis: str) -> str:
    """The key of the smallest (`from`) or the largest (`to`) size of a search along an axis."""
    return f"cross_{end.lower()}_{axis}"


def compare_anyway(base: str, new: str) -> str:
    """The key of the consent to compare these two runs in spite of what forbids it; in no URL."""
    return f"compare_anyway_{base}_{new}"


def held(axis: str) -> str:
    """The key of the choice that holds an axis at one value while others are drawn."""
    return f"at_{axis}"
