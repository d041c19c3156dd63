"""The columns of a comparison: one row per workload × contender that both sides hold."""

from __future__ import annotations

from profiling.columns import WORKLOAD_COLUMNS, Column

VERDICTS = ("slower", "unsure", "provisional", "same", "faster")
MEASURES = ("relative", "latency")

COMPARED_COLUMNS = (
    *(column for column in WORKLOAD_COLUMNS if column.name not in ("head_dim", "threads", "seed")),
    Column("contender", "text", "the layer, by name"),
    Column("reference", "text", "what both sides compared it with; empty for a reference, and where they differ"),
    Column("is_yardstick", "bool", "whether it is a reference itself, whose time says what the machine did"),
    Column("point_base", "int", "position of the workload in the grid of BASE, of several runs in that of the first"),
    Column("point_new", "int", "the same of NEW"),
    Column("status_base", "text", "ok, or why BASE has no numbers"),
    Column("status_new", "text", "ok, or why NEW has no numbers"),
    Column("check_base", "text", "check verdict in BASE"),
    Column("check_new", "text", "check verdict in NEW"),
    Column("source_changed", "bool", "whether the layer's source differs between the sides"),
    Column("latency_base_ms", "float", "median time of one call in BASE"),
    Column("latency_new_ms", "float", "median time of one call in NEW"),
    Column("latency_ratio", "float", "one median / the other; above 1 is slower, by the layer or by the machine"),
    Column(
        "latency_low",
        "float",
        "lower end of the interval of the mean ratio across replicates; empty where a side is a report",
    ),
    Column("latency_high", "float", "upper end of it"),
    Column("speedup_base", "float", "reference's time / this contender's in BASE"),
    Column("speedup_new", "float", "the same in NEW"),
    Column("speedup_ratio", "float", "speed-up in NEW / speed-up in BASE: the machine cancels; above 1 is faster"),
    Column("speedup_ratio_low", "float", "lower end of its interval across replicates"),
    Column("speedup_ratio_high", "float", "upper end of it"),
    Column("measure", "text", "what the verdict rests on: relative (to the reference) or latency; empty for none"),
    Column("change_percent", "float", "change of that measure of time from BASE to NEW; above 0 is slower"),
    Column("change_low_percent", "float", "lower end, 95 % for all contenders compared at the point together"),
    Column("change_high_percent", "float", "upper end of it"),
    Column("noise_percent", "float", "a change within it, either way, is no claim"),
    Column("num_replicates", "int", "replicates behind it on the side that has fewer"),
    Column("verdict", "text", "slower, faster, same, unsure or provisional; empty where nothing can be said of time"),
    Column("reason", "text", "why that verdict and no other"),
    Column("memory_base_mib", "float", "peak memory of the call in BASE"),
    Column("memory_new_mib", "float", "peak memory of the call in NEW"),
    Column("memory_change_bytes", "int", "bytes more in NEW"),
    Column("memory_change_percent", "float", "the same as a share of BASE"),
    Column("is_regression", "bool", "whether it counts for the exit status"),
    Column("is_broken", "bool", "whether it worked in BASE and no longer does: lost, broken now and then, or wrong"),
    Column("regression", "text", "why it does; empty where it does not"),
)
