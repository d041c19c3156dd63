"""The check: is this layer right? The same weights and input through it and the official layer, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mha.attention import MultiHeadAttention
from mha.building import name_of, sizes_of
from mha.comparison import ERROR_RATIO_TOLERANCE, Comparison, compare_outputs
from mha.crossing import check_cross_attention
from mha.diagnosis import Explanation, Observation, explain
from mha.fairness import fairness_notes
from mha.formula import CAUSAL, RIGHT, Formula
from mha.gradients import compare_gradients
from mha.layouts import Reading
from mha.masks import causal_extra, check_mask
from mha.official import call_official, causal_mask, fast_path
from mha.oracle import oracle
from mha.probes import is_causal, probe
from mha.report import (
    ConsistencyReport,
    ErrorMap,
    Finding,
    GradientComparison,
    MappedWeight,
    Part,
    Probe,
    Shape,
    ShapeComparison,
)
from mha.trial import How, Stopped, Trial, attention_weights, own_random_state, same_reading

PLAIN_TOLERANCE = 1e-5

# Pairwise different sizes, head_dim among them, no head_dim a power of four: a swapped axis or a wrong scale cannot
# pass by luck, as it does where head_dim equals num_heads. One with seq_len below d_model, one with seq_len above.
PROBE_SHAPES = (Shape(15, 3, 2, 7), Shape(14, 2, 3, 17))
# (batch_size, seq_len) for a layer that fixes d_model and num_heads, by being given ready-made or by refusing others.
PROBE_SIZES = ((2, 7), (3, 17))

# An error ratio up to this is looked at again: with rounding, the ratio of two largest errors is itself uncertain.
SECOND_LOOK = 16.0
SECOND_LOOKS = 4

# Beyond this many scores a known fault is not confirmed at the shape asked for: its float64 truth would be too large.
CONFIRM_ELEMENTS = 2**22


def check_consistency(
    layer: nn.Module | Callable[..., nn.Module] = MultiHeadAttention,
    *,
    d_model: int = 64,
    num_heads: int = 4,
    batch_size: int = 2,
    seq_len: int = 8,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    bias: bool | None = None,
    causal: bool = False,
    need_weights: bool | None = None,
    seed: int = 42,
    probes: bool = True,
    batch_first: bool = True,
    input_scale: float = 1.0,
    gradients: bool = True,
    self_check: bool = False,
) -> ConsistencyReport:
    """Hold a layer against ``torch.nn.MultiheadAttention``, at a shape and at fixed probe shapes.

    Both get the same random weights (and biases) and normal input, and run in eval mode. The rule is that of
    :func:`mha.comparison.compare_outputs`; the verdict comes from all shapes together, and besides from two runs that
    must agree, from gradients, and from cross-attention and masks where the layer takes them.

    Which parameter is which is read off names and shapes, and settled by running the layer (:mod:`mha.layouts`). A
    layer may bring a method ``load_from_official(self, official)`` instead. Where the outputs differ, the report names
    the known fault that reproduces the layer's output (:mod:`mha.faults`), or what experiments showed.

    Args:
        layer: a class or factory that takes the width and the number of heads, under any of their usual names; or a
            layer: that is copied, not touched, its own weights are not used, and it decides its sizes. Its forward
            takes x, or query, key and value.
        d_model, num_heads, batch_size, seq_len: the shape asked for.
        dtype, device: of weights and input.
        bias: whether the official layer has biases; None: as the layer has. Passed on to a class that takes it.
        causal: the official layer gets a causal mask; passed on to a layer that takes it. Not needed for a layer that
            is causal by itself: that is found out.
        need_weights: how the official layer is called; None: False where the layer says it ``attends`` ``"fused"``.
        seed: of weights and input; the global random state is left as it was.
        probes: whether to run the probe shapes too.
        batch_first: False for a layer that takes and gives (seq_len, batch, d_model).
        input_scale: the input's standard deviation.
        gradients: whether to compare gradients, at a probe shape.
        self_check: whether to plant every known fault in a right layer and count those that this check catches.

    Raises:
        ValueError: where a size is not positive or ``num_heads`` does not divide ``d_model``.
    """
    asked = _asked_shape(layer, d_model, num_heads, batch_size, seq_len)
    if isinstance(layer, nn.Module):
        causal = causal or getattr(layer, "causal", False) is True  # a layer that is given ready-made has decided
    how = How(layer, device, bias, causal, seed, batch_first, float(input_scale))
    with own_random_state(device):
        check = _Check(how, asked, dtype, need_weights, probes=probes, gradients=gradients)
        check.run()
        caught = _planted() if self_check else None
    return check.report(caught)


def _planted() -> tuple[int, int]:
    from mha.planted import planted_faults_caught  # it calls this module

    return planted_faults_caught()


def _asked_shape(layer: Any, d_model: int, num_heads: int, batch_size: int, seq_len: int) -> Shape:
    if isinstance(layer, nn.Module):
        d_model, num_heads = sizes_of(layer, d_model, num_heads)
    shape = Shape(d_model, num_heads, batch_size, seq_len)
    for name, value in shape._asdict().items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if value <= 0:
            raise ValueError(f"{name} must be positive, got {value}")
    if d_model % num_heads:
        raise ValueError(f"num_heads must divide d_model, got d_model={d_model} and num_heads={num_heads}")
    return shape


class _Check:
    """One check on its way: the verdict so far, and the figures it rests on."""

    def __init__(
        self, how: How, asked: Shape, dtype: torch.dtype, need_weights: bool | None, *, probes: bool, gradients: bool
    ) -> None:
        self.how, self.asked, self.dtype, self.need_weights = how, asked, dtype, need_weights
        self.with_probes, self.with_gradients = probes, gradients
        self.verdict, self.reason = "pass", ""
        self.comparisons: list[ShapeComparison] = []
        self.findings: list[Finding] = []
        self.parts: list[Part] = []
        self.gradients: list[GradientComparison] = []
        self.probes: list[Probe] = []
        self.notes: list[str] = []
        self.limits: list[str] = []  # what the verdict does not reach
        self.trial: Trial | None = None
        self.explanation: Explanation | None = None
        self.reading: Reading | None = None
        self.base: Formula = RIGHT
        self.shapes: list[Shape] = []
        self.error_map: ErrorMap | None = None

    def run(self) -> None:
        """Everything, in order; stops where it cannot go on."""
        try:
            self.trial = self._first_trial()
            try:
                self._explain(self.trial)
            except Stopped as stop:
                raise self._at(self.trial.shape, stop) from stop
            self._compare_everywhere(self.trial)
            if self.reading is not None and self.reading.is_shared:
                self._tell_shared()
            elif self.verdict == "pass":
                self._check_parts(self.trial)
        except Stopped as stop:
            self._stop(stop)
        if self.trial is not None:
            self.notes += self.trial.notes
            self.notes += fairness_notes(self.trial, self.reading)

    # -- finding out what the layer is --------------------------------------------------------------------------------

    def _first_trial(self) -> Trial:
        """The layer at the first small shape that it accepts, in float32 unless float64 was asked for."""
        dtype = self.dtype if self.dtype == torch.float64 else torch.float32
        fixed = [Shape(self.asked.d_model, self.asked.num_heads, *sizes) for sizes in PROBE_SIZES]
        free = [] if isinstance(self.how.target, nn.Module) else list(PROBE_SHAPES)
        first: Stopped | None = None
        for shapes in ([free] if free else []) + [fixed, [self.asked]]:
            try:
                trial = Trial.of(self.how, shapes[0], dtype)
                trial.run()
            except Stopped as stop:
                first = first or stop
                continue
            if first is not None:
                self.limits.append(
                    f"at {free[0] if free else fixed[0]} it could not be run ({first}), so the verdict is for "
                    f"d_model {trial.shape.d_model} with {trial.shape.num_heads} heads alone"
                )
            self.shapes = [
                self.asked,
                *([shape for shape in shapes if shape != self.asked] if self.with_probes else []),
            ]
            return trial
        assert first is not None
        raise self._at(fixed[0] if not free else free[0], first)

    def _explain(self, trial: Trial) -> None:
        """Find the reading and the formula that give the layer's output, or the fault that does."""
        candidates: list[tuple[Reading, Mapping[str, Tensor]]] = []
        if trial.loaded is not None:
            candidates = [(Reading((), (), {}), trial.weights(None))]
        else:
            candidates = [(one, trial.weights(one)) for one in trial.candidates]
            self.reading = trial.candidates[0]
        output = trial.run_twice()
        self.base = CAUSAL if self.how.causal or is_causal(trial) else RIGHT
        if self.how.causal and not is_causal(trial):
            output = self._made_causal(trial, candidates) or output
        seen = Observation.of([trial.x], output, trial.shape.num_heads)
        self.explanation = explain(seen, candidates, base=self.base)
        if self.explanation is None:
            return
        if trial.loaded is None:
            self.reading = self.explanation.reading
        for fault in self.explanation.faults:
            self.findings.append(Finding(fault.name, fault.told(trial.shape.d_model, trial.shape.num_heads)))

    def _made_causal(self, trial: Trial, candidates: list[tuple[Reading, Mapping[str, Tensor]]]) -> Tensor | None:
        """The output of a call that asks the layer to be causal; the trial keeps how that is done."""
        seen = Observation.of([trial.x], trial.run(), trial.shape.num_heads)
        plain = explain(seen, candidates)
        if plain is None or plain.faults:
            return None
        weights = dict(next(weights for reading, weights in candidates if reading is plain.reading))
        for extra in causal_extra(trial, weights, RIGHT):
            try:
                output = trial.run(None, **extra)
            except Stopped:
                continue
            if Observation.of([trial.x], output, trial.shape.num_heads).is_given_by(CAUSAL, weights):
                trial.extra = extra
                return output
        return None

    # -- comparing ----------------------------------------------------------------------------------------------------

    def _compare_everywhere(self, small: Trial) -> None:
        """Hold the layer against the official one at the shape asked for and at the probe shapes."""
        for shape in self.shapes:
            try:
                comparison = self._compare_at(shape, small)
            except Stopped as stop:
                if any(found.comparison.verdict == "fail" for found in self.comparisons):
                    break  # a wrong output stands, whatever happens at a later shape
                raise self._at(shape, stop) from stop
            self.comparisons.append(ShapeComparison(shape, comparison))
        failed = [found for found in self.comparisons if found.comparison.verdict == "fail"]
        if failed:
            self.verdict, self.reason = "fail", f"at {failed[0].shape}: {failed[0].comparison.reason}"
        self.parts.append(self._part(f"self-attention{self._causal_word()}", self.comparisons))
        if failed:
            self._explain_failure(small, failed[0])
        elif self.findings:
            # The fault shows at the small shape in another dtype, and not where the layer was compared.
            self.verdict, self.reason = "fail", self.findings[0].sentence

    def _compare_at(self, shape: Shape, small: Trial) -> Comparison:
        trial = Trial.of(self.how, shape, self.dtype)
        if small.extra:
            trial.extra = self._extra_like(small, trial)
        reading = same_reading(self.reading, trial.candidates) if self.reading is not None else None
        comparison, maps = self._compare_once(trial, reading)
        if shape == self.asked:
            self.error_map = maps
        if comparison.verdict == "fail" and comparison.num_non_finite == 0 and comparison.error_ratio <= SECOND_LOOK:
            comparison = self._look_again(shape, comparison, reading)
        return comparison

    def _compare_once(self, trial: Trial, reading: Reading | None) -> tuple[Comparison, ErrorMap | None]:
        output = trial.run_twice()
        expected, other = self._official_outputs(trial, reading)
        weights = trial.weights(reading)
        truth = oracle(
            trial.x,
            attention_weights(weights if "w_o" in weights else {**weights, "w_o": self._stand_in(trial, reading)}),
            trial.shape.num_heads,
            causal=self.base.pattern == "causal",
        )
        comparison = compare_outputs(output, expected, truth, trial.dtype, also=other)
        return comparison, _error_map(output, expected, trial.shape.num_heads)

    def _stand_in(self, trial: Trial, reading: Reading | None) -> Tensor:
        """The official layer's own output projection, where the layer has none."""
        return trial.official(reading, bias=False).out_proj.weight.detach().cpu().double()

    def _official_outputs(self, trial: Trial, reading: Reading | None) -> tuple[Tensor, Tensor | None]:
        """The official layer's output by the call that is compared with, and by its other program."""
        has_bias = any(role.startswith("b_") for role in trial.weights(reading))
        need_weights = self.need_weights
        if need_weights is None:
            need_weights = getattr(trial.layer, "attends", "explicit") != "fused"
        mask = None
        if self.base.pattern == "causal":
            mask = causal_mask(trial.shape.seq_len, dtype=trial.dtype, device=trial.how.device)
        try:
            official = trial.official(reading, bias=has_bias)
            with torch.no_grad(), fast_path(False):
                first, second = (
                    call_official(official, trial.x, need_weights=wanted, causal_mask=mask)
                    for wanted in (need_weights, not need_weights)
                )
        except (RuntimeError, TypeError) as error:  # it has no kernel for every dtype on every device
            raise Stopped("error", f"the official layer raised {type(error).__name__}: {error}") from error
        return first, second

    def _look_again(self, shape: Shape, first: Comparison, reading: Reading | None) -> Comparison:
        """The comparison of the largest errors over several seeds: one input's may be large by chance."""
        found = [first]
        for i in range(SECOND_LOOKS):
            trial = Trial.of(self.how._replace(seed=self.how.seed + 1000 + i), shape, self.dtype)
            again = same_reading(reading, trial.candidates) if reading is not None else None
            found.append(self._compare_once(trial, again)[0])
        return first.joined(found)

    def _extra_like(self, small: Trial, trial: Trial) -> dict[str, Any]:
        """The same further arguments at another shape."""
        reading = same_reading(self.reading, trial.candidates) if self.reading is not None else None
        if all(not isinstance(value, Tensor) for value in small.extra.values()):
            return small.extra
        for extra in causal_extra(trial, trial.weights(reading), RIGHT):
            if set(extra) == set(small.extra):
                return extra
        raise Stopped("error", f"the layer's mask ({', '.join(small.extra)}) is not taken at {trial.shape}")

    # -- parts besides ------------------------------------------------------------------------------------------------

    def _check_parts(self, trial: Trial) -> None:
        """Gradients, cross-attention and masks, at the small shape, of a layer whose outputs are right."""
        weights = trial.weights(self.reading)
        if self.with_gradients:
            self._check_gradients(trial)
        if trial.calling.takes_keys_and_values and self.base is RIGHT and not trial.extra:
            parts, findings, limits = check_cross_attention(trial, weights)
            self._add(parts, findings)
            self.limits += limits
        for argument, padding in [(name, False) for name in trial.calling.masks] + [
            (name, True) for name in trial.calling.paddings
        ]:
            if argument in trial.extra:
                continue
            part, _, findings = check_mask(trial, weights, argument, self.base, padding=padding)
            if part.verdict == "error" and not padding:  # some call it a mask and mean padding
                again, _, found = check_mask(trial, weights, argument, self.base, padding=True)
                part, findings = (again, found) if again.verdict == "pass" else (part, findings)
            self._add([part], findings)

    def _check_gradients(self, trial: Trial) -> None:
        try:
            self.gradients = compare_gradients(trial, self.reading, self.base)
        except Stopped as stop:
            self._add([Part("gradients", stop.verdict, None, None, str(stop))], stop.findings)
            return
        wrong = [found for found in self.gradients if found.verdict == "fail"]
        missing = [found.name for found in wrong if math.isnan(found.max_abs_error)]
        verdict = "fail" if wrong else "pass"
        reason = f"of the input and {len(self.gradients) - 1} weights, in train mode with nn.Dropout at rest"
        findings = []
        if missing:
            reason = f"no gradient, or none that is finite, reaches {', '.join(missing)}"
            findings.append(
                Finding(
                    "gradient-missing",
                    f"No finite gradient reaches {', '.join(missing)}: a detach(), .data or torch.no_grad() on the way "
                    f"cuts it off, or an operation there has none.",
                )
            )
        elif wrong:
            reason = f"the gradient of {', '.join(found.name for found in wrong)} differs, while the output does not"
        worst = _worst([found.error_ratio for found in self.gradients])
        self._add(
            [Part("gradients", verdict, _worst([g.max_abs_error for g in self.gradients]), worst, reason)], findings
        )

    def _add(self, parts: list[Part], findings: list[Finding] | tuple[Finding, ...]) -> None:
        """Take in parts; one that fails fails the whole, one that could not be run limits it."""
        self.parts += parts
        self.findings += findings
        for part in parts:
            if part.verdict == "fail" and self.verdict == "pass":
                self.verdict, self.reason = "fail", f"{part.part}: {part.reason}"
            elif part.verdict == "error":
                self.limits.append(f"{part.part} was not checked: {part.reason}")

    # -- what to say --------------------------------------------------------------------------------------------------

    def _explain_failure(self, small: Trial, failed: ShapeComparison) -> None:
        """What explains a wrong output: a fault already found, one at the shape that failed, the dtype, or probes."""
        if self.explanation is not None and not self.explanation.faults:
            self._explain_at(failed)
        if self.findings:
            return
        if failed.comparison.num_non_finite:
            self.findings.append(self._non_finite(failed))
            return
        if self.explanation is None:
            self.probes = probe(small, self.reading)
            self.reason += "; no known fault, alone or with another, reproduces the output"
        else:
            self.probes = [
                Probe(
                    "precision",
                    f"at {small.shape} in {_short(small.dtype)} the output is right to "
                    f"{4 if small.dtype == torch.float32 else 9} digits, so the formula is right and the arithmetic is "
                    "less precise than the official layer's: a lower precision inside, or another order of sums",
                )
            ]

    def _explain_at(self, failed: ShapeComparison) -> None:
        """A fault that shows only at the shape that failed, such as a number of heads that is ignored."""
        shape = failed.shape
        if shape.batch_size * shape.num_heads * shape.seq_len**2 > CONFIRM_ELEMENTS:
            return
        dtype = self.dtype if self.dtype == torch.float64 else torch.float32
        trial = Trial.of(self.how, shape, dtype)
        candidates = [(one, trial.weights(one)) for one in trial.candidates]
        if trial.loaded is not None:
            candidates = [(Reading((), (), {}), trial.weights(None))]
        seen = Observation.of([trial.x], trial.run(), shape.num_heads)
        found = explain(seen, candidates, base=self.base)
        if found is None:
            self.probes = probe(trial, self.reading)
            self.reason += "; no known fault, alone or with another, reproduces the output"
            return
        self.findings += [Finding(fault.name, fault.told(shape.d_model, shape.num_heads)) for fault in found.faults]

    def _non_finite(self, failed: ShapeComparison) -> Finding:
        count, shape = failed.comparison.num_non_finite, failed.shape
        sentence = f"{count} elements of the output are NaN or infinite in {_short(self.dtype)}"
        if self.dtype in (torch.float16, torch.bfloat16):
            trial = Trial.of(self.how, shape, torch.float32)
            reading = same_reading(self.reading, trial.candidates) if self.reading is not None else None
            largest = _largest_score(trial, trial.weights(reading))
            limit = torch.finfo(self.dtype).max
            if largest > limit and bool(torch.isfinite(trial.run()).all()):
                sentence += (
                    f", in float32 none: unscaled scores reach {largest:.3g}, {_short(self.dtype)} ends at "
                    f"{limit:.3g}: they overflow before they are scaled. Scale the queries, not the scores"
                )
        return Finding("non-finite", sentence + ".")

    def _tell_shared(self) -> None:
        """Fewer weights than the official layer: not comparable by copying in; the other way round is told."""
        assert self.reading is not None
        letters = {letter for one in self.reading.stored for letter in one.letters}
        if "G" in letters:
            heads = self.reading.sizes["G"]
            self.findings.insert(
                0,
                Finding(
                    "grouped-query",
                    f"Another design: keys and values have {heads} heads for {self.reading.sizes['H']} of queries "
                    "(grouped-query attention); the official layer has as many of each.",
                ),
            )
        elif "d" in letters:
            self.findings.insert(
                0,
                Finding(
                    "shared-projection",
                    "One projection of (head_dim, head_dim) is shared by all heads, each on its own slice of the "
                    "input: project the whole width with (d_model, d_model), then split into heads.",
                ),
            )
        else:
            self.findings.insert(
                0,
                Finding("shared-projection", "Queries, keys and values share one projection: give each its own."),
            )
        shared = [one for one in self.reading.stored if one.is_shared]
        where = self.asked
        reverse = "passes" if self.verdict == "pass" else f"fails: {self.reason}"
        self.limits.append(
            "the official layer's weights have no place in this one; the other way round, with its weights copied into "
            f"the official layer and repeated where they are shared, it {reverse}"
        )
        shape = tuple(self.trial.layer.get_parameter(shared[0].names[0]).shape) if self.trial else ()
        width = self.trial.shape.d_model if self.trial else where.d_model
        self.verdict = "not-comparable"
        self.reason = (
            f"{shared[0].label} is {shape} at d_model {width}, the official layer's weights have no place there: "
            f"{self.findings[0].sentence}"
        )

    def _stop(self, stop: Stopped) -> None:
        self.verdict, self.reason = stop.verdict, str(stop)
        self.findings += [finding for finding in stop.findings if finding not in self.findings]

    def _at(self, shape: Shape, stop: Stopped) -> Stopped:
        return Stopped(stop.verdict, f"at {shape}: {stop}", stop.findings)

    def _causal_word(self) -> str:
        return ", causal" if self.base.pattern == "causal" else ""

    def _part(self, name: str, found: list[ShapeComparison]) -> Part:
        comparisons = [one.comparison for one in found]
        verdict = "fail" if any(one.verdict == "fail" for one in comparisons) else "pass"
        return Part(
            f"{name}, {_short(self.dtype)}, inference",
            verdict,
            _worst([one.max_abs_error for one in comparisons]),
            _worst([one.error_ratio for one in comparisons]),
            f"at {len(comparisons)} shapes",
        )

    # -- the report ---------------------------------------------------------------------------------------------------

    def report(self, planted: tuple[int, int] | None) -> ConsistencyReport:
        """What was found, put together."""
        found = [entry.comparison for entry in self.comparisons]
        max_abs_error = _worst([comparison.max_abs_error for comparison in found])
        return ConsistencyReport(
            verdict=self.verdict,
            reason=self.reason or _all_passed(max_abs_error or 0.0, found),
            scope=self._scope(),
            max_abs_error=max_abs_error,
            error_ratio=_worst([comparison.error_ratio for comparison in found]),
            tolerance=ERROR_RATIO_TOLERANCE,
            plain_tolerance=PLAIN_TOLERANCE,
            plain_holds=None if max_abs_error is None else max_abs_error < PLAIN_TOLERANCE,
            num_non_finite=sum(comparison.num_non_finite for comparison in found),
            comparisons=tuple(self.comparisons),
            mapping=self._mapping(),
            unmatched=self.reading.unmatched if self.reading is not None else (),
            diagnosis=tuple(self.findings),
            parts=tuple(self.parts),
            gradients=tuple(self.gradients),
            probes=tuple(self.probes),
            notes=tuple(dict.fromkeys(self.notes)),
            error_map=self.error_map,
            planted_caught=None if planted is None else planted[0],
            planted_total=None if planted is None else planted[1],
        )

    def _mapping(self) -> tuple[MappedWeight, ...]:
        if self.reading is None:
            if self.trial is not None and self.trial.loaded is not None:
                return (MappedWeight("load_from_official", "all weights", "by the layer's own method"),)
            return ()
        official = {
            "w_q": "in_proj_weight[0:E]",
            "w_k": "in_proj_weight[E:2E]",
            "w_v": "in_proj_weight[2E:3E]",
            "w_o": "out_proj.weight",
            "b_q": "in_proj_bias[0:E]",
            "b_k": "in_proj_bias[E:2E]",
            "b_v": "in_proj_bias[2E:3E]",
            "b_o": "out_proj.bias",
        }
        mapped = []
        for one in self.reading.stored:
            how = one.how() + (" (found by trying)" if self.reading.by_search and one.kind == "w" else "")
            for role in one.roles:
                theirs = one.label if len(one.roles) == 1 else f"{one.label} ({role})"
                if one.kind == "b" and self.how.bias is False:
                    mapped.append(MappedWeight(theirs, "none", "set to zero"))
                else:
                    mapped.append(MappedWeight(theirs, official[f"{one.kind}_{role}"], how))
        return tuple(mapped)

    def _scope(self) -> str:
        how = self.how
        bias = {None: "biases as the layer has", True: "with biases", False: "without biases"}[how.bias]
        causal = "no mask"
        if self.base.pattern == "causal":
            causal = "causal" if how.causal else "causal (the layer is so by itself)"
        told = [
            f"{name_of(how.target)} against torch.nn.MultiheadAttention (torch {torch.__version__}) on {how.device}, "
            f"{_short(self.dtype)}, {causal}, {bias}, random weights and normal input of seed {how.seed}, eval mode"
        ]
        if how.input_scale != 1.0:
            told.append(f"input times {how.input_scale:g}")
        if not how.batch_first:
            told.append("tensors (seq_len, batch, d_model)")
        if self.comparisons:
            told.append(f"at {'; '.join(str(found.shape) for found in self.comparisons)}")
        passed = [part.part for part in self.parts[1:] if part.verdict == "pass"]
        if passed and self.trial is not None:
            told.append(f"besides, at {self.trial.shape}: {', '.join(passed)}")
        if all(found.shape.d_model == found.shape.num_heads**2 for found in self.comparisons) and self.comparisons:
            told.append(
                f"head_dim equals num_heads ({self.asked.num_heads}): a scale by the wrong one of them cannot show"
            )
        return "; ".join([*told, *self.limits])


def _error_map(output: Tensor, expected: Tensor, num_heads: int) -> ErrorMap | None:
    """Largest |error| by position (at most 64, evenly spaced blocks) and by each head's output channels."""
    if output.shape != expected.shape or output.numel() == 0:
        return None
    difference = (output.detach().cpu().double() - expected.detach().cpu().double()).abs()
    by_head = difference.view(*difference.shape[:2], num_heads, -1).amax((0, -1))  # (S, H)
    blocks = torch.tensor_split(by_head, min(64, by_head.shape[0]))
    starts, start = [], 0
    for block in blocks:
        starts.append(start)
        start += block.shape[0]
    values = tuple(tuple(float(value) for value in block.amax(0)) for block in blocks)
    return ErrorMap(tuple(starts), tuple(range(num_heads)), values)


def _largest_score(trial: Trial, weights: Mapping[str, Tensor]) -> float:
    """The largest product of a query and a key before it is scaled."""
    shape, x = trial.shape, trial.x.detach().cpu().double()[:, :256]
    q, k = (
        torch.nn.functional.linear(x, weights[f"w_{role}"], weights.get(f"b_{role}"))
        .view(x.shape[0], x.shape[1], shape.num_heads, -1)
        .transpose(1, 2)
        for role in "qk"
    )
    return float((q @ k.transpose(-2, -1)).abs().max())


def _short(dtype: torch.dtype) -> str:
    return str(dtype).replace("torch.", "")


def _worst(figures: list[float | None]) -> float | None:
    """The largest, NaN above all; None where there are none."""
    known = [figure for figure in figures if figure is not None]
    return max(known, key=lambda figure: (math.isnan(figure), figure)) if known else None


def _all_passed(max_abs_error: float, found: list[Comparison]) -> str:
    if max_abs_error == 0:
        return f"equals the official layer's output bit for bit at {len(found)} of {len(found)} shapes"
    return f"as near the float64 truth as the official layer at {len(found)} of {len(found)} shapes"
