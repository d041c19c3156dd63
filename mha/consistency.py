"""The check: is this layer right? The same weights and input through it and the official layer, and a verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import nn

from mha.attention import MultiHeadAttention
from mha.checking.causes import NOTHING_KNOWN, causes_of_failure, finding_of_sharing, findings_of, non_finite
from mha.checking.comparison import ERROR_RATIO_TOLERANCE, Comparison
from mha.checking.fairness import fairness_notes
from mha.checking.identification import Identity, heads_of_instance, identify
from mha.checking.parts import BESIDE, Parts, check_dtypes, check_parts, more_in_cross_attention, worst
from mha.checking.report import (
    ConsistencyReport,
    ErrorMap,
    Finding,
    MappedWeight,
    Part,
    Probe,
    Shape,
    ShapeComparison,
)
from mha.checking.request import asked_shape, known_device, known_dtype, require_settings
from mha.checking.side_by_side import NothingToCompare, compare_at
from mha.checking.surroundings import own_random_state
from mha.checking.trial import How, Stopped
from mha.checking.wording import short
from mha.reading.building import name_of

PLAIN_TOLERANCE = 1e-5

# How the official layer calls the roles.
OFFICIAL_NAMES = {
    "w_q": "in_proj_weight[0:E]",
    "w_k": "in_proj_weight[E:2E]",
    "w_v": "in_proj_weight[2E:3E]",
    "w_o": "out_proj.weight",
    "b_q": "in_proj_bias[0:E]",
    "b_k": "in_proj_bias[E:2E]",
    "b_v": "in_proj_bias[2E:3E]",
    "b_o": "out_proj.bias",
}


def check_consistency(
    layer: nn.Module | Callable[..., nn.Module] = MultiHeadAttention,
    *,
    d_model: int = 64,
    num_heads: int = 4,
    batch_size: int = 2,
    seq_len: int = 8,
    dtype: torch.dtype | str = torch.float32,
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
    :func:`mha.checking.comparison.compare_outputs`; the verdict comes from all shapes together, and besides from two
    runs that must agree, from gradients, and from cross-attention and masks where the layer takes them.

    Which parameter is which is read off names and shapes, and settled by running the layer (:mod:`mha.reading`). A
    layer may bring a method ``load_from_official(self, official)`` instead. Where the outputs differ, the report names
    the known fault that reproduces the layer's output (:mod:`mha.checking.faults`), or what experiments showed.

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
        ValueError: where a size is not positive, ``num_heads`` does not divide ``d_model``, or dtype or device is none
            that a layer can compute in.
    """
    asked = asked_shape(layer, d_model, num_heads, batch_size, seq_len)
    dtype, device = known_dtype(dtype), known_device(device)
    require_settings(bias, causal, seed, input_scale)
    if isinstance(layer, nn.Module):
        causal = causal or getattr(layer, "causal", False) is True  # a layer that is given ready-made has decided
    how = How(layer, device, bias, causal, seed, batch_first, float(input_scale), [])
    with own_random_state(device):
        check = _Check(how, asked, dtype, need_weights, probes=probes, gradients=gradients)
        check.run()
        return check.report(_planted() if self_check else None)


def _planted() -> tuple[int, int]:
    from mha.checking.planted import planted_faults_caught  # it calls this module

    return planted_faults_caught()


class _Check:
    """One check on its way: the verdict so far, and the figures it rests on."""

    def __init__(
        self, how: How, asked: Shape, dtype: torch.dtype, need_weights: bool | None, *, probes: bool, gradients: bool
    ) -> None:
        self.how, self.asked, self.dtype, self.need_weights = how, asked, dtype, need_weights
        self.with_probes, self.with_gradients = probes, gradients
        self.verdict, self.reason = "pass", ""
        self.identity: Identity | None = None
        self.comparisons: list[ShapeComparison] = []
        self.error_map: ErrorMap | None = None
        self.findings: list[Finding] = []
        self.probes: list[Probe] = []
        self.parts = Parts()

    def run(self) -> None:
        """Everything, in order; stops where it cannot go on."""
        try:
            self.identity = identify(self.how, self.asked, self.dtype, probes=self.with_probes)
            self._take_heads_of_instance(self.identity)
            self.findings = findings_of(self.identity, self.asked)
            if self.identity.is_unreadable:
                raise Stopped("not-comparable", self._unreadable(self.identity))
            self._compare(self.identity)
            if self.identity.reading is not None and self.identity.reading.is_shared:
                self._tell_sharing(self.identity)
            elif self.verdict == "pass":
                self._check_parts(self.identity)
            if self.verdict == "fail" and not self.findings and self.how.input_scale > 1:
                self._explain_at_ordinary_input()
        except Stopped as stop:
            self.verdict, self.reason = stop.verdict, str(stop)
            self.findings += [finding for finding in stop.findings if finding not in self.findings]

    def _explain_at_ordinary_input(self) -> None:
        """Name a fault that large scores hide: where the softmax picks one key, no scale of the scores shows."""
        with contextlib.suppress(Stopped):
            identity = identify(self.how._replace(input_scale=1.0), self.asked, self.dtype, probes=False)
            self.findings = findings_of(identity, self.asked)

    def _unreadable(self, identity: Identity) -> str:
        """No way to read the parameters gives the output; the trial reading is nothing to show."""
        named = ", ".join(name for name, _ in identity.trial.layer.named_parameters())
        identity.reading = None
        return (
            f"{name_of(self.how.target)}: no way to read its parameters ({named}) gives its output; name them as "
            "others do (q_proj, k_proj, v_proj, out_proj), or give the layer a method "
            "load_from_official(self, official)"
        )

    def _take_heads_of_instance(self, identity: Identity) -> None:
        """Where a ready-made layer tells its number of heads by nothing but what it computes, believe that."""
        heads = heads_of_instance(identity)
        if heads is not None:
            self.asked = self.asked._replace(num_heads=heads)
            self.identity = identify(self.how, self.asked, self.dtype, probes=self.with_probes)
            self.identity.limits.append(f"the number of heads, {heads}, was read off its output")

    def _compare(self, identity: Identity) -> None:
        """Hold the layer against the official one at the shape asked for and at the probe shapes."""
        nothing: Stopped | None = None
        for shape in identity.shapes:
            try:
                comparison, error_map = compare_at(identity, shape, self.dtype, need_weights=self.need_weights)
            except NothingToCompare as stop:
                nothing = nothing or stop.at(shape)
                self.parts.limits.append(f"not compared {stop.at(shape)}")
                continue
            except Stopped as stop:
                if any(found.comparison.verdict == "fail" for found in self.comparisons):
                    break  # a wrong output stands, whatever happens at a later shape
                raise stop.at(shape) from stop
            self.comparisons.append(ShapeComparison(shape, comparison))
            self.error_map = error_map if shape == self.asked else self.error_map
        if nothing is not None and not self.comparisons:
            raise nothing
        self.parts.add(self._part(identity))
        failed = [found for found in self.comparisons if found.comparison.verdict == "fail"]
        if failed:
            self.verdict, self.reason = "fail", f"at {failed[0].shape}: {failed[0].comparison.reason}"
            if self.findings and failed[0].comparison.num_non_finite:
                self.findings.append(non_finite(identity, failed[0], self.dtype))
            if self.findings:
                self.findings += more_in_cross_attention(identity, self.findings)
            if not self.findings:
                self.findings, self.probes = causes_of_failure(identity, failed[0], self.dtype)
                if not self.findings and self.probes and self.probes[0].probe != "precision":
                    self.reason += f"; {NOTHING_KNOWN}"
                    if identity.reading is not None and identity.reading.unmatched:
                        self.reason += f"; without counterpart there: {', '.join(identity.reading.unmatched)}"
        elif self.findings:  # at the small shape, not where the layer was compared
            self.verdict, self.reason = "fail", f"at {identity.trial.shape}: {self.findings[0].sentence}"

    def _part(self, identity: Identity) -> Part:
        found = [one.comparison for one in self.comparisons]
        return Part(
            f"self-attention{', causal' if identity.is_causal else ''}, {short(self.dtype)}, inference",
            "fail" if any(one.verdict == "fail" for one in found) else "pass",
            worst([one.max_abs_error for one in found]),
            worst([one.error_ratio for one in found]),
            f"at {len(found)} shape{'s' if len(found) != 1 else ''}",
        )

    def _tell_sharing(self, identity: Identity) -> None:
        """Fewer weights than the official layer's: not comparable by copying in; the other way round is told."""
        finding, place = finding_of_sharing(identity, self.asked)
        reverse = "passes" if self.verdict == "pass" else f"fails ({self.reason})"
        told = (
            "the other way round, with this layer's weights copied into the official one and repeated where they are "
            f"shared, it {reverse}"
        )
        identity.limits.append(told)
        self.verdict, self.reason = "not-comparable", f"{place}; {told}"
        self.findings.insert(0, finding)

    def _check_parts(self, identity: Identity) -> None:
        """Gradients, cross-attention and masks; one that fails fails the whole."""
        found = check_parts(identity, gradients=self.with_gradients)
        for part in found.parts:
            if part.verdict == "fail" and self.verdict == "pass":
                self.verdict, self.reason = "fail", f"{part.part}: {part.reason}"
        self.findings += found.findings
        for part in check_dtypes(identity, self.dtype, need_weights=self.need_weights):
            found.add(part)
        self.parts = Parts(self.parts.parts + found.parts, [], self.parts.limits + found.limits, found.gradients)

    # -- the report ---------------------------------------------------------------------------------------------------

    def report(self, planted: tuple[int, int] | None) -> ConsistencyReport:
        """What was found, put together."""
        found = [entry.comparison for entry in self.comparisons]
        max_abs_error = worst([comparison.max_abs_error for comparison in found])
        identity = self.identity
        reading = None if identity is None else identity.reading
        notes = self.how.notes + ([] if identity is None else fairness_notes(identity.trial, reading))
        return ConsistencyReport(
            verdict=self.verdict,
            reason=self.reason or _all_passed(max_abs_error or 0.0, found) + self._unchecked(),
            scope=self._scope(),
            max_abs_error=max_abs_error,
            error_ratio=worst([comparison.error_ratio for comparison in found]),
            tolerance=ERROR_RATIO_TOLERANCE,
            plain_tolerance=PLAIN_TOLERANCE,
            plain_holds=None if max_abs_error is None else max_abs_error < PLAIN_TOLERANCE,
            num_non_finite=sum(comparison.num_non_finite for comparison in found),
            comparisons=tuple(self.comparisons),
            mapping=self._mapping(),
            unmatched=() if reading is None else reading.unmatched,
            diagnosis=tuple(self.findings),
            parts=tuple(self.parts.parts),
            gradients=tuple(self.parts.gradients),
            probes=tuple(self.probes),
            notes=tuple(notes),
            error_map=self.error_map,
            planted_caught=None if planted is None else planted[0],
            planted_total=None if planted is None else planted[1],
        )

    def _unchecked(self) -> str:
        """What a pass leaves open, by name; the scope says why."""
        names = [part.part for part in self.parts.parts if part.verdict == "error" and not part.part.startswith(BESIDE)]
        return f"; not checked: {', '.join(names)}" if names else ""

    def _mapping(self) -> tuple[MappedWeight, ...]:
        if self.identity is None:
            return ()
        if self.identity.trial.loaded is None and self.identity.reading is None:
            return ()
        if self.identity.reading is None:
            return (MappedWeight("load_from_official", "all weights", "by the layer's own method"),)
        mapped = []
        for one in self.identity.reading.stored:
            how = one.how() + (" (found by trying)" if self.identity.reading.by_search and one.kind == "w" else "")
            for role in one.roles:
                theirs = one.label_of(role)
                if one.kind == "b" and self.how.bias is False:
                    mapped.append(MappedWeight(theirs, "none", "set to zero"))
                else:
                    mapped.append(MappedWeight(theirs, OFFICIAL_NAMES[f"{one.kind}_{role}"], how))
        return tuple(mapped)

    def _scope(self) -> str:
        how, identity = self.how, self.identity
        bias = {None: "biases as the layer has", True: "with biases", False: "without biases"}[how.bias]
        causal = "no mask"
        if identity is not None and identity.is_causal:
            causal = "causal" if how.causal else "causal (the layer is so by itself)"
        told = [
            f"{name_of(how.target)} against torch.nn.MultiheadAttention (torch {torch.__version__}) on {how.device}, "
            f"{short(self.dtype)}, {causal}, {bias}, random weights and normal input of seed {how.seed}, eval mode"
        ]
        if how.input_scale != 1.0:
            told.append(f"input times {how.input_scale:g}")
        if not how.batch_first:
            told.append("tensors (seq_len, batch, d_model)")
        if self.comparisons:
            told.append(f"at {'; '.join(str(found.shape) for found in self.comparisons)}")
        passed = [part.part for part in self.parts.parts[1:] if part.verdict == "pass"]
        if passed and identity is not None:
            told.append(f"besides, at {identity.trial.shape}: {', '.join(passed)}")
        if self.comparisons and all(found.shape.d_model == found.shape.num_heads**2 for found in self.comparisons):
            told.append(
                f"head_dim equals num_heads ({self.asked.num_heads}): a scale by the wrong one of them cannot show"
            )
        return "; ".join([*told, *([] if identity is None else identity.limits), *self.parts.limits])


def _all_passed(max_abs_error: float, found: list[Comparison]) -> str:
    if max_abs_error == 0:
        return f"equals the official layer's output bit for bit at {len(found)} of {len(found)} shapes"
    told = f"as near the float64 truth as the official layer at {len(found)} of {len(found)} shapes"
    tied = sum(one.moved is not None for one in found)
    if tied:
        told += f", at {tied} of them but for scores so nearly equal that one rounding decides between them"
    return told
