"""Multi-head attention that is right, and the means to tell whether another one is.

The layers (:mod:`mha.attention`), the official layer called in a stated way (:mod:`mha.official`), the float64 truth
(:mod:`mha.oracle`), weights moved between layers (:mod:`mha.transplant`) and the check (:mod:`mha.consistency`).
"""

from mha.attention import FusedMultiHeadAttention, MultiHeadAttention
from mha.checking.comparison import Comparison, compare_outputs
from mha.checking.report import ConsistencyError, ConsistencyReport
from mha.consistency import check_consistency
from mha.official import call_official, causal_mask, fast_path, official_layer
from mha.oracle import AttentionWeights, Oracle, oracle
from mha.reading.layouts import UnknownLayoutError
from mha.slots import randomize_
from mha.transplant import TransplantError, transplant

__all__ = [
    "AttentionWeights",
    "Comparison",
    "ConsistencyError",
    "ConsistencyReport",
    "FusedMultiHeadAttention",
    "MultiHeadAttention",
    "Oracle",
    "TransplantError",
    "UnknownLayoutError",
    "call_official",
    "causal_mask",
    "check_consistency",
    "compare_outputs",
    "fast_path",
    "official_layer",
    "oracle",
    "randomize_",
    "transplant",
]
