"""The method in words, continued: what is answered beside a run's rows, how, what may be claimed, what disturbs it."""

from __future__ import annotations

from profiling.agreement import WIDEST_AGREEMENT
from profiling.compare.comparing import FAIL_ABOVE
from profiling.intervals import LEVEL
from profiling.laws.crossover_search import Plan
from profiling.laws.fitting import MIN_SIZES
from profiling.laws.growth import SMALLEST_SPAN, WIDEST_INTERVAL
from profiling.laws.largest_fit import SHARE_OF_FREE
from profiling.limits import FREE_OF_ROOFS
from profiling.operators.profiler import DEFAULT_CALLS, MAX_TRACE_CALLS
from profiling.ratios import SMALLEST_CLAIM
from profiling.settings import MIN_REPLICATES_FOR_VERDICT
from profiling.wording import as_percent

_CLAIM = as_percent(SMALLEST_CLAIM)

LIMITS = f"""
**In words.** "75 % of what this machine can do, bound by matmul; at best it could be 1.33 times as fast": the call
does 75 % of the operations that the lower roof allows in its time, the lower roof is that of matrix products, and 1 /
0.75 = 1.33. Below {as_percent(FREE_OF_ROOFS)} neither roof is what holds it: most of its time goes to what is in no
formula, such as the softmax, copies and the calls themselves.

*What may be claimed:* how much a better program could gain at the most, on this machine. Not that such a program
exists. *What disturbs it:* a ceiling that was measured while others computed is too low, and the share too high.
"""

OPERATORS = f"""
A call is made of **operators**: matrix products, a softmax, copies. *Operators*, and `python -m profiling profile`,
run two layers with the same weights under torch's profiler, {DEFAULT_CALLS} calls of each, in turns, and set beside
each other what each spends on **projections, scores, softmax, weighted sum, output projection, copies and layout**,
and outside of any operator (**framework overhead**: Python, and torch's own dispatch).

**Self time** is what an operator takes without those that it calls, so that nothing is counted twice. All roles
together are the profiled time: that is checked, and said where it is not so. Which role an operator has is told by
the sizes and the order of the products around the softmax, not by names. A fused kernel does scores, softmax and
weighted sum in one, and is not split; what a compiler generated has a role of its own; what fits nothing is *other*,
by name. Where a compiler has moved products of a backward pass so that neither order nor sizes tell them apart, it is
said which they may be.

*What may be claimed:* how many calls there are of each, and which part of the time. "Beyond what single calls vary"
means that the middle halves of the calls of both do not overlap. Times are means, so that they add up: a difference
that is more than twice that of most calls is told to be one of a few, which something else may have interrupted. It is
one process, without replicates: for how much faster, take a sweep. *What disturbs it:* watching costs time at every
operator, so a layer of many small ones looks slower than it is. That is why a process that has profiled times nothing
else. A **trace** for Perfetto holds {MAX_TRACE_CALLS} calls of each.
"""

LAWS = f"""
A **law** is an exponent: memory ~ S^2 means that twice the length takes four times the memory. It is fitted to the
logarithms of what was measured of one layer along one axis (sequence length, batch size or heads), all else held
fixed, and told with its {as_percent(LEVEL)} interval. How exactly a time is known is read off its replicates; without
them off what the fit leaves, and that is said. Where the values bend, since a fixed cost weighs less and less, the
exponent at the largest size is told, and that it bends. Noise may choose the curve that fits best, so for times the
interval spans those that fit nearly as well, and what the last sizes say alone. Where only a step explains the times,
as to another kernel, the sizes beyond it speak.

Beside the exponent of a time stands that of its operations, counted by formula; that of memory says whether the
scores, a number for each pair of positions, are held whole.

*What may be claimed:* the growth over the sizes that were measured. No further: another kernel, or another cache, may
take over beyond. No law is told, and why, below {MIN_SIZES} sizes, where the largest is less than {SMALLEST_SPAN:g}
times the smallest, or where the interval is wider than ±{WIDEST_INTERVAL:g}. *What disturbs it:* few sizes, few
replicates, noise, a step so small that it passes for growth, and a cliff near the largest size, as where a cache
overflows, which passes for another bend: there one interval in ten misses, by up to a tenth.
"""

CROSSOVER = f"""
**From which length on** one layer beats another is searched with fresh measurements: at {Plan.num_first} sizes spread
over the range, then between the two neighbours whose signs differ, again and again, until they are within
{as_percent(Plan.within)} of each other. Both layers run in the same rounds. At each size, {Plan.replicates}
replicates are measured, and up to {Plan.max_replicates} where they leave the sign open; the interval is made wide
enough to hold with {as_percent(LEVEL)} though it was looked at twice.

*What may be claimed:* a size has a sign where its interval lies wholly outside of 1 ± the larger of {_CLAIM} and what
a clone strayed by. Else the two are within noise there, and that is the answer. The crossover lies between two sizes
with opposite signs, and the winner is told up to the last size that has one. The {as_percent(LEVEL)} are those of
each size, not of all together. *What disturbs it:* lines that cross at a flat angle, so that the noise covers a wide
range.
"""

FITS = f"""
**The longest sequence that fits** is tried, not computed: each length in a process of its own, which may hold
{as_percent(SHARE_OF_FREE)} of the free memory, or what `--memory` says, and is refused more. The lengths rise from a
safe one, or begin where the memory law of a run says, until one that ran and one that did not are near each other.

*What may be claimed:* that this length ran and that one did not, under the limit that is told, with who held how
much: torch, the layer and its input, the call itself. *What disturbs it:* other programs, which take what is free; a
compiler, whose leavings count.
"""

COMPARE = f"""
*Compare*, and `python -m profiling compare BASE NEW`, join two runs by workload and layer. A verdict rests on the
**time relative to the reference** in the same process: that the machine is slower today cancels. Only where that is
missing it rests on the latency, which must then lie beyond what the references moved by. Change and interval are
Welch's, for two sides whose spread differs, on logarithms, across replicates.

**A regression** is a row whose time grew by more than the threshold ({as_percent(FAIL_ABOVE)} unless told otherwise)
while its interval lies wholly beyond the noise: the larger of {_CLAIM} and what clones on both sides strayed by. Here
the interval is wide enough to hold *all* rows of the comparison together with {as_percent(LEVEL)}: one false alarm is
enough to fail somebody's build. A row whose peak memory grew by more than the threshold is one too, and so is one
that passed its check or was measured in BASE, and no longer does or could not be.

*What may be claimed:* nothing below {MIN_REPLICATES_FOR_VERDICT} replicates a side, and nothing where device, torch,
threads or heap differ, unless you insist. Means over shapes are geometric, over those that both sides completed.
*What disturbs it:* what holds for all of a run moves all its replicates alike, so no number of them shows it. With
one run a side it is unknown; with more (*Further runs* on the page, `--base-also` and `--new-also` of
the command) the intervals allow for it.
"""

REPEAT = f"""
**Each row can be measured again**: by its command line, or by a script that needs torch alone, holds the layer's
source and says whether it agrees. Two speed-ups agree where they differ by no more than the largest of {_CLAIM}, the
half-widths of both intervals together, and what a clone strayed by. Where that is more than
{as_percent(WIDEST_AGREEMENT)}, nearly everything would agree, and it is called too noisy to tell.

**Sources.** A run keeps each source that its rows came from, by its hash (`source_hash`), and how your layer was
built, called and given its weights. So a row can be repeated as it was, though the file was edited since. A row that
was measured while its file changed is not counted, and says so.
"""

# In the order in which they are read: what stands above each, and the text.
SECTIONS = {
    "Where a call's time goes": OPERATORS,
    "How time and memory grow": LAWS,
    "From which length on": CROSSOVER,
    "The longest sequence that fits": FITS,
    "From one run to another": COMPARE,
    "Measured again": REPEAT,
}
