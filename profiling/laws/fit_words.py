"""The longest sequence that fits, in words and as data."""

from __future__ import annotations

import dataclasses
from typing import Any

from profiling.laws.fit_search import OK, OOM, REFUSED, Tried
from profiling.laws.largest_fit import LargestFit
from profiling.layers import is_compiled
from profiling.units import format_duration, format_mib


def pace_words(contender: str) -> str:
    """What makes a search slow beyond its calls, told before it begins; empty where nothing does."""
    if not is_compiled(contender):
        return ""
    return (
        "each length is compiled anew in a process of its own, which first makes its compiler ready: some tens of "
        "seconds to minutes each"
    )


def largest_words(found: LargestFit) -> list[str]:
    """The answer in a sentence, then what limits it, a sentence each."""
    w = found.workload
    at = f"batch {w.batch_size}, heads {w.num_heads}, d_model {w.d_model}"
    at += "".join(
        f", {word}" for word, is_so in (("training", w.mode == "training"), (w.dtype, w.dtype != "float32")) if is_so
    )
    predicted = "" if found.predicted is None else f" (predicted {found.predicted:,} {found.source})"
    largest, failed = found.fits, found.failed
    if largest is None:
        worst = f": {tried_words(found.tried[0])}" if found.tried else ""
        said = [f"{found.contender} was not seen to fit at any seq_len at {at}{predicted}{worst}"]
    else:
        ran = tried_words(next(each for each in found.tried if each.size == largest))
        if failed is not None and failed.status in (OOM, REFUSED):
            said = [
                f"{found.contender} fits up to seq_len {largest:,} at {at}{predicted}: {ran}, {tried_words(failed)}"
            ]
        else:
            said = [f"{found.contender} fits at least up to seq_len {largest:,} at {at}{predicted}: {ran}"]
            if failed is not None:
                said.append(f"memory did not end it: {tried_words(failed)}")
            elif largest >= found.high and not found.stopped:
                said.append("that is the longest that was asked for")
    if found.law_predicted is not None:
        said.append(f"the memory law of the shorter ones that ran predicts {found.law_predicted:,}")
    said += _memory_words(found)
    strange = [each for each in found.tried if each.status != OK and each.size < (largest or 0)]
    if strange:
        said.append("and yet " + "; ".join(tried_words(each) for each in strange))
    if found.stopped:
        said.append(f"the search ended early: {found.stopped}")
    return said


def _memory_words(found: LargestFit) -> list[str]:
    """What was limited, and who took it: at the longest that ran, and at the next."""
    if found.memory_mib is None:
        return []
    free = "what was free" if found.free_mib is None else f"the {format_mib(found.free_mib)} that were free"
    why = f"as asked, of {free}" if found.is_asked else f"90 % of {free}"
    said = [f"the limit: its process might hold {format_mib(found.memory_mib)} in all, {why}"]
    ran = next((each for each in found.tried if each.size == found.fits and each.status == OK), None)
    if ran is not None and (shares := _shares(ran)):
        said.append(f"at {ran.size:,} " + ", ".join(shares))
    failed = found.failed
    if failed is not None and failed.asked_mib is not None and failed.failed_at_mib is not None:
        held, asked = format_mib(failed.failed_at_mib), format_mib(failed.asked_mib)
        said.append(f"at {failed.size:,} it was refused {asked} when it held at least {held}")
    return said


def _shares(ran: Tried) -> list[str]:
    """Who held what in the process; nothing where it is not known."""
    if ran.base_mib is None or ran.before_mib is None:
        return []
    own = max(0.0, ran.before_mib - ran.base_mib - (ran.compiler_mib or 0.0))
    told = [f"torch held {format_mib(ran.base_mib)}"]
    if ran.compiler_mib is not None:
        told.append(f"its compiler {format_mib(ran.compiler_mib)}")
    told.append(f"the layer and its input {format_mib(own)}")
    if ran.peak_mib is not None:
        told.append(f"its call at most {format_mib(ran.peak_mib)}")
        if ran.limit_mib is not None:
            rest = format_mib(max(0.0, ran.limit_mib - ran.before_mib - ran.peak_mib))
            told.append(f"and the rest, {rest}, was free or lay between blocks in use")
    return told


def tried_words(tried: Tried) -> str:
    """What became of one size: `11,264 ran (its call held 4.2 GiB)`, `11,776 ran out of memory (asked for …)`."""
    if tried.status == OK:
        told = [] if tried.peak_mib is None else [f"its call held {format_mib(tried.peak_mib)}"]
        if tried.compile_s is not None:
            told.append(f"compiled in {format_duration(tried.compile_s)}")
        return f"{tried.size:,} ran" + (f" ({', '.join(told)})" if told else "")
    if tried.status == OOM:
        # After the size that was asked for, the row's reason goes on with what torch raised.
        asked = tried.reason.partition(": ")[0] if tried.reason.startswith("asked for") else tried.reason
        return f"{tried.size:,} ran out of memory ({asked})"
    if tried.status == REFUSED:
        return f"{tried.size:,} was not tried ({tried.reason})"
    return f"{tried.size:,} did not run: {tried.status}: {tried.reason}"


def largest_dict(found: LargestFit) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        **{"contender": found.contender, "fits": found.fits, "words": largest_words(found)},
        "workload": {name: value for name, value in found.workload.to_dict().items() if name != "seq_len"},
        **{"predicted": found.predicted, "predicted_from": found.source or None, "law_predicted": found.law_predicted},
        **{"memory_mib": found.memory_mib, "is_asked": found.is_asked},
        **{"room_mib": found.room_mib, "free_mib": found.free_mib, "stopped": found.stopped or None},
        "tried": [dataclasses.asdict(each) for each in found.tried],
    }
