"""The report of a check that came to nothing: the same keys as any other, with the reason. No torch."""

from __future__ import annotations

from typing import Any

from profiling.child_process import ChildDied

# As `mha.consistency` has them; a test holds the two together.
TOLERANCE = 2.0
PLAIN_TOLERANCE = 1e-5


def error_report(reason: str, scope: str) -> dict[str, Any]:
    """A report with the verdict `error`, nothing compared, and every key that a report has.

    Args:
        reason: what went wrong, in a sentence.
        scope: what was to be run.
    """
    return {
        "verdict": "error",
        "reason": reason,
        "scope": scope,
        "max_abs_error": None,
        "error_ratio": None,
        "tolerance": TOLERANCE,
        "plain_tolerance": PLAIN_TOLERANCE,
        "plain_holds": None,
        "num_non_finite": 0,
        "comparisons": [],
        "mapping": [],
        "unmatched": [],
        "diagnosis": [],
        "parts": [],
        "gradients": [],
        "probes": [],
        "notes": [],
        "error_map": None,
        "planted_caught": None,
        "planted_total": None,
        "max_abs_error_oracle": None,
        "official_max_abs_error_oracle": None,
        "torch_version": None,
        "seconds": None,
    }


def reason_of(error: Exception, limit_s: float) -> str:
    """Why a check has no answer: what the layer did, or what befell the process before it came to the layer."""
    if not isinstance(error, ChildDied):
        return str(error)
    if error.running.phase != "check":
        return f"the measuring process {error}"
    if error.status == "timeout":
        return f"the layer did not answer within {limit_s:g} s"
    return f"the layer took its process down, which {error}"
