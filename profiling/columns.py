"""The row schema: every column of a measurement, its type, and what it means."""

from __future__ import annotations

import dataclasses

SCHEMA_VERSION = 2
# Runs of these versions can be read; what they did not measure yet is empty.
READABLE_VERSIONS = (1, 2)

STATUSES = ("ok", "oom", "crashed", "timeout", "error", "invalid", "unavailable")
RUN_STATES = ("running", "stopped", "finished", "failed")


@dataclasses.dataclass(frozen=True)
class Column:
    """One column. `kind` is `int`, `float`, `bool` or `text`; an empty cell means: not measured.

    A file may lack it that was written before schema version `since`.
    """

    name: str
    kind: str
    meaning: str
    since: int = 1


WORKLOAD_COLUMNS = (
    Column("batch_size", "int", "sequences per call"),
    Column("seq_len", "int", "tokens per sequence"),
    Column("num_heads", "int", "attention heads"),
    Column("d_model", "int", "width of the layer, channels per token"),
    Column("head_dim", "int", "d_model / num_heads; empty where it does not divide"),
    Column("dtype", "text", "element type of weights and input"),
    Column("device", "text", "where the call ran"),
    Column("mode", "text", "inference (no gradients) or training (forward and backward)"),
    Column("bias", "bool", "whether the projections have biases"),
    Column("causal", "bool", "whether a token sees only itself and earlier ones"),
    Column("threads", "int", "threads torch computed with"),
    Column("seed", "int", "seed of weights and input"),
)

# What is measured once per replicate × workload × contender.
MEASURED_COLUMNS = (
    Column("status", "text", "ok, or why the numbers are empty: " + ", ".join(STATUSES[1:])),
    Column("status_reason", "text", "the status in words"),
    Column("latency_median_ms", "float", "median time of one call, milliseconds"),
    Column("latency_p25_ms", "float", "a quarter of the samples took less"),
    Column("latency_p75_ms", "float", "three quarters of the samples took less"),
    Column("latency_p5_ms", "float", "5 % of the samples took less"),
    Column("latency_p95_ms", "float", "95 % of the samples took less"),
    Column("num_samples", "int", "timed samples, one per round"),
    Column("calls_per_sample", "int", "calls timed together, so that a sample lasts well above the clock's step"),
    Column("stop_reason", "text", "why the rounds ended"),
    Column("speedup", "float", "reference's time / this contender's, median over rounds; above 1 is faster"),
    Column("clone_speedup", "float", "the same ratio of the reference to a clone of itself: what 1 looks like here", 2),
    Column("noise_floor", "float", "how far that clone strayed from a ratio of 1, over all replicates together"),
    Column("throughput_tokens_per_s", "float", "batch_size × seq_len / median time"),
    Column("achieved_gflop_per_s", "float", "operations by formula / median time"),
    Column(
        "peak_memory_mib",
        "float",
        "most bytes the call itself held at once beyond what was live before, MiB; on the CPU without what a layer "
        "takes and frees again in threads of its own",
    ),
    Column(
        "max_abs_error",
        "float",
        "largest absolute difference from the reference's output; inf where an output is NaN or inf",
    ),
    Column("max_abs_error_oracle", "float", "largest absolute difference from the float64 oracle"),
    Column("error_ratio", "float", "error against the oracle / (the reference's own + eps × largest output)"),
    Column("check_verdict", "text", "pass, fail, not-comparable or error; empty for a reference"),
    Column("kernel", "text", "the attention program that was seen to run"),
    Column("fast_path_reason", "text", "why the official layer's fast path did not run; empty where it did", 2),
    Column("compile_s", "float", "seconds that torch.compile took, with nothing cached; never in the latency", 2),
    Column("page_faults_per_call", "float", "pages that the kernel had to bring in during a timed call, on average", 2),
    Column("waited_s", "float", "seconds waited for a quiet moment before timing", 2),
    Column("load_start", "float", "processes ready to run when timing began, 1-minute average", 2),
    Column("load_end", "float", "the same when it ended", 2),
    Column("clock_mhz", "float", "the device's clock when timing ended, MHz; empty where it cannot be read", 2),
    Column("warnings", "text", "what may disturb the numbers of this row"),
    Column("source_hash", "text", "hash of the layer's source as it was measured"),
    Column("measured_at", "text", "end of the measurement, UTC"),
)

IDENTITY_COLUMNS = (
    Column("run_id", "text", "the run's folder name"),
    Column("replicate", "int", "which pass over the grid, from 1"),
    Column("point", "int", "position of the workload in the grid, from 1"),
)

CONTENDER_COLUMNS = (
    Column("contender", "text", "the layer, by name; one of your own as FILE.py:NAME, as it was given"),
    Column("reference", "text", "the official call it is compared with; empty for a reference itself"),
)

# measurements.csv: one row per replicate × workload × contender.
MEASUREMENT_COLUMNS = IDENTITY_COLUMNS + WORKLOAD_COLUMNS + CONTENDER_COLUMNS + MEASURED_COLUMNS

# samples.csv: one row per timed sample.
SAMPLE_COLUMNS = (
    *IDENTITY_COLUMNS,
    Column("contender", "text", "the layer, by name; `clone:<reference>` is the control"),
    Column("round", "int", "which round of the interleaving, from 1"),
    Column("latency_ms", "float", "time of one call in this sample, milliseconds"),
)

# What joining the replicates adds, after the columns above less `replicate`.
JOINED_COLUMNS = (
    Column("num_replicates", "int", "replicates with a measurement"),
    Column("num_speedups", "int", "replicates behind speedup: those in which its reference was measured too"),
    Column(
        "speedup_low",
        "float",
        "lower end of the interval of speedup across replicates, 95 % for all contenders of the point together; "
        "empty below 2",
    ),
    Column("speedup_high", "float", "upper end of it"),
    Column(
        "speed_verdict",
        "text",
        "faster, slower, same, unsure, or provisional below 5 replicates; empty where the check fails",
    ),
    Column("speed_verdict_reason", "text", "why that verdict and no other"),
    Column("arithmetic_intensity", "float", "operations of a call per byte that it has to move at least"),
    Column(
        "roofline_fraction",
        "float",
        "achieved_gflop_per_s / what this machine can do at that intensity; "
        "a causal call is counted in full, so where its program skips the masked half it may pass 1",
    ),
)

# The run's environment, repeated in each row of a report, so that a row stands alone.
ENVIRONMENT_COLUMNS = (
    Column("heap", "text", "pinned or as-is"),
    Column("time_budget_s", "float", "seconds of timed rounds per contender, point and replicate"),
    Column("matmul_gflop_per_s", "float", "matrix products of this element type that the machine was measured to do"),
    Column("copy_gb_per_s", "float", "bytes that it was measured to copy (read and written both counted), GB/s"),
    Column("torch_version", "text", "torch that was measured"),
    Column("python_version", "text", "Python that ran it"),
    Column("device_name", "text", "the device's own name"),
    Column("blas", "text", "the library behind torch's matrix products"),
    Column("platform", "text", "operating system and processor architecture"),
    Column("commit", "text", "commit of mha-bench, with -dirty where files differ from it; empty without git"),
    Column("repeat_command", "text", "the command line that measures this row again, next to its reference alone"),
)

REPORT_COLUMNS = (
    tuple(column for column in IDENTITY_COLUMNS if column.name != "replicate")
    + WORKLOAD_COLUMNS
    + CONTENDER_COLUMNS
    + MEASURED_COLUMNS
    + JOINED_COLUMNS
    + ENVIRONMENT_COLUMNS
)


def names(columns: tuple[Column, ...]) -> list[str]:
    """The columns' names in order."""
    return [column.name for column in columns]
