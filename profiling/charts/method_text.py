"""The method in words: what each number means, how it is measured, what may be claimed of it, and what disturbs it."""

from __future__ import annotations

from collections.abc import Mapping

from profiling.intervals import LEVEL
from profiling.ratios import SMALLEST_CLAIM
from profiling.settings import MIN_REPLICATES_FOR_VERDICT, MIN_ROUNDS
from profiling.wording import as_percent

_ENOUGH = MIN_REPLICATES_FOR_VERDICT
_CLAIM = as_percent(SMALLEST_CLAIM)

STATUSES = {
    "ok": "measured; every number that the device can offer is there",
    "oom": "the point did not fit into memory",
    "crashed": "the measuring process died while this contender ran",
    "timeout": "the point took longer than its time limit, which is many times its estimate",
    "error": "the layer raised an error; the reason holds its message",
    "invalid": "no such layer: the heads do not divide d_model",
    "unavailable": "this torch or this device cannot run it",
}

VERDICTS = {
    "pass": "the layer is at most twice as far from the truth as the official layer is, and every output is finite",
    "fail": "it is further off, or an output is NaN or infinite; its speed-up does not count",
    "not-comparable": "another design: its weights cannot correspond to those of the official layer",
    "error": "it raised an error; the reason holds its message",
}

SHORT = f"""
Two layers are timed **next to each other**, in turns and in random order, together with a **copy of the reference**,
which shows what no difference looks like on this machine. This is repeated in **fresh processes**, because one process
alone misleads. A difference is claimed only where the interval over these processes lies wholly outside of what noise
can do, and never below {_CLAIM}. Everything else is called *same*, *unsure* or *provisional*, and claims nothing.
"""

NUMBERS = """
**Latency** is the time of one call. The page shows the median of all timed samples; the band around a line holds the
middle half of them (from the quartile p25 to p75). Never the mean: one interruption can double it. Lower is better.

**Speed-up** is the reference's time divided by the contender's. Above 1 the contender is faster. Means over several
shapes are geometric, so that 2× and 0.5× cancel. Only shapes that both sides completed count, and only where the
contender passes the check: a wrong answer has no speed. A layer of another design (*not comparable*, such as grouped
queries) counts, and is marked.

**Peak memory** is the most bytes that the call itself holds at once, beyond what was live before it. On the CPU it is
the running sum of the allocator's own events, exact to the byte, in a pass of its own; on an accelerator the
allocator's peak after a reset. It is never read off the size of the process, which depends on what ran before. Where a
device tells no true peak the cell is empty. MiB are 2²⁰ bytes. Lower is better.

**Max error** is the largest absolute difference between the contender's output and its reference's, for the same
weights and input. *0 (bit-identical)* means that not one bit differs.

**Error against float64** is the largest difference from the same layer computed in double precision. Nobody computes
exactly in float32, so the **error ratio** sets it against the official layer's own:
error / (the official layer's error + eps × largest output). About 1 is as exact as the official layer; the check
passes up to 2.
"""

ONE_LAYER = """
**My layer** holds one layer against the official one: same random weights and biases, same input, at the shape asked
for and at fixed probe shapes, at which no two sizes are equal. The verdict comes from all of it together: the output,
the gradients, and, where the layer takes them, masks and keys from elsewhere.

**What explains it** is found by trying known faults one at a time, then in pairs, until one gives the layer's very
output. Where none does, the probes say what was seen instead.

**n of n planted faults caught**: the check checks itself. It plants the same faults in a right layer and counts those
that it tells by name.

**The map** shows the largest |error| of each position and each block of output channels, as wide as a head. Its colours
mean the same in every map: dark is rounding, bright is as large as the output itself.
"""

HOW = f"""
1. **Measuring has a process of its own**, apart from this page and from the program that supervises the sweep. If it
   dies, the contender that was running has a row without numbers, which says why; nothing else is lost.
2. **The check comes first.** Every contender gets the same weights and input as the official layer, each in tensors of
   its own: a weight that two of them share would lie in the cache for the second.
3. **Compiling comes apart.** What `torch.compile` takes before the first call is `compile_s`, and in no latency.
4. **Then a quiet moment.** Where others take the processor or the device, timing waits, up to a limit; `waited_s` says
   how long. If the moment does not come, it is measured all the same, and the row carries a warning.
5. **Then the times, in rounds.** Each round times every contender once, next to each other, in a fresh random order:
   what disturbs one disturbs all, and nobody always comes after the same neighbour. Calls are repeated within a sample
   until it lasts well above the clock's step; very short calls have one untimed call before them. Garbage collection is
   off.
6. **Rounds end** once the ratios are told to within 1 %, or the time budget is spent, after {MIN_ROUNDS} rounds at the
   earliest; `stop_reason` says which.
7. **Then the memory**, in a pass of its own, because watching the allocator takes time.
8. **Replicates** are fresh processes that pass over the grid again.
9. **One sweep at a time** per device. Two at once would slow each other down, unevenly.
10. Every raw sample is kept in `samples.csv` of the run's folder, and drawn under *Samples*.
"""

PAIRS = """
Times drift: clocks change, other programs come and go. So no two times are compared that lie far apart. Within a round
the reference and the contender run within milliseconds of each other, and their **ratio** is taken there. The speed-up
of a process is the median of these ratios:
"""
PAIRS_FORMULA = (
    r"s_r = \operatorname*{median}_{\text{rounds } i} \frac{t_{\text{reference},\,i}}{t_{\text{contender},\,i}}"
)

REPLICATES = """
**One process is not enough.** Start the same program again and the ratio moves by some per cent, for as long as the
process lives: where its memory happens to lie is part of it. More rounds do not help, they only measure the same
process better. So the grid is passed over again in fresh processes, the **replicates**, and it is their spread that
counts.

**The interval** is Student's t over the logarithms of the replicates' speed-ups (so that 2× and 0.5× cancel):
"""
INTERVAL_FORMULA = (
    r"\exp\left(\overline{\log s} \;\pm\; t_{1-\alpha/2,\;n-1}\, \frac{\operatorname{sd}(\log s)}{\sqrt{n}}\right)"
)
INTERVAL = f"""
with *n* replicates, and α = {1 - LEVEL:.2f} / *m* where *m* contenders are compared at the point. The division is
Bonferroni's correction: who looks at four layers finds one that seems to differ four times as often, so all intervals
of a point hold together with {as_percent(LEVEL)}. It is not made for the points of a whole grid: among a hundred
verdicts a few will be wrong.

**The clone.** A second copy of the reference runs in every round, with weights of its own. Its ratio should be 1. How
far it strays is the **noise floor** of this point in this very run: a speed-up within it says nothing.

**The five verdicts.** With *margin* = the larger of {_CLAIM} and the noise floor:
"""

SPEED_VERDICTS = {
    "faster": "the whole interval lies above 1 + margin",
    "slower": "the whole interval lies below 1 / (1 + margin)",
    "same": f"the whole interval lies within 1 ± {_CLAIM}, and the noise floor is no larger than that. Noise can hide "
    "a difference, but it never shows that there is none",
    "unsure": f"anything else; and always where the clone was measured in fewer than {_ENOUGH} replicates, or its own "
    f"interval lies wholly outside of 1 ± {_CLAIM}: something besides the layers differs",
    "provisional": f"fewer than {_ENOUGH} replicates. Nothing is claimed, whatever it looks like",
}

NOT_CLAIMED = f"""
A difference below {_CLAIM} is never claimed, on no machine: it is smaller than what a fresh process alone can change.
{_ENOUGH} replicates are enough to judge, 8 to publish. *Add replicates* under a result goes on with a run that has
fewer; at the command line `sweep --out DIR --resume --replicates {_ENOUGH}` does.
"""

# What a row may be warned of: how the sentence can be known, what is behind it, what to do.
WARNINGS = (
    ("other processes took", "other programs used the processor meanwhile", "close them, or wait"),
    ("the host gave", "on a virtual machine: its host served others", "measure again later"),
    ("memory on this device", "another process may compute on the same accelerator", "end it, or take another device"),
    ("a clone of", "the reference and its copy seem to differ by more than a little", "a quieter machine, more rounds"),
    ("rounds only", "the time budget was spent after a few rounds", "a larger time budget"),
    ("the times drifted by", "the machine grew faster or slower: times moved, ratios stand", "let it warm up or cool"),
    ("are a group of their own", "the times fall into two groups, so a median can jump", "1 thread, more replicates"),
    ("the clock's step of", "the sample is hardly longer than what the clock can tell", "a larger shape"),
    ("page faults a call", "each call pays for fresh memory from the kernel", "pin the heap, or accept it as real"),
    ("CPU quota ran out", "the container was paused, and the pauses are in the times", "more CPU, or fewer threads"),
    ("slowed itself down", "heat or power: the device lowered its clock", "let it cool, or fix a lower clock"),
    ("the clock fell from", "the processor ran slower at the end than at the start", "let it cool, or fix its clock"),
    ("of the measured ceiling", "more than the machine was measured to do: that measure is stale", "measure again"),
    ("memory was measured to deliver", "the tensors stay in the cache from call to call", "nothing: it is so"),
    ("memory not measured", "the pass that watches the allocator failed; the times stand", "read the reason there"),
    ("replicates not measured", "some processes gave no numbers; the others are joined", "read the reason there"),
)

COSTS = """
**Operations** are counted by formula, never by a profiler, which sees none of them in some fused kernels. For *b*
sequences of *s* tokens and width *d*, whatever the number of heads, four projections, scores and weighted sum are
"""
FLOP_FORMULA = r"\text{FLOP} = 8\,b\,s\,d^2 + 4\,b\,s^2\,d"
ROOFLINE = """
a multiplication and an addition counted as two; training counts three times as many. A causal layer is counted in full,
so one that skips the masked half may seem faster than the machine. **Bytes** are those that have to be moved at least:
input, output and weights once each. Operations per byte are the `arithmetic_intensity`.

**Ceilings** are measured on this machine at the start and the end of a run, the best of several: how fast it multiplies
matrices of this element type (`matmul_gflop_per_s`) and how fast it copies (`copy_gb_per_s`). The **roofline** is what
the two allow at a call's intensity:
"""
ROOF_FORMULA = r"\text{roof} = \min\left(\text{matmul},\ \text{intensity} \times \text{copy}\right)"
FRACTION = """
`roofline_fraction` is the share of it that a contender reaches. Near 1 there is nothing left to gain from a better
program, only from doing less. Above 1 the ceiling is stale, or the caches hold what memory need not deliver.

**Which program ran** is watched, not guessed: `kernel` names it. The official layer is several programs (explicit
products, a fused kernel, a *fast path* of its own), and how it is called decides; where the fast path was not taken,
`fast_path_reason` says why.

**The heap** of the measuring process is pinned unless you ask otherwise: freed memory stays with it, so that times
repeat. It hides what a process pays for fresh memory, and can turn a verdict round: a layer that allocates much gains
most. `--heap as-is` measures the other way.
"""

SELF_TEST = """
Do not take our word for it. On the machine at hand

    python -m profiling self-test

measures what is known beforehand as if it were not: layers against copies of themselves, and copies made slower by a
known amount. It tells how often a difference is claimed that is not there, which planted slow-downs are found, and how
often the interval holds the truth, beside what simpler ways of timing would have said. It takes some minutes and leaves
its table under `results/`.
"""


def as_list(terms: Mapping[str, str]) -> str:
    """Terms and what they mean, as a list in Markdown."""
    return "\n".join(f"- **{name}**: {meaning}." for name, meaning in terms.items())
