"""`autotune advise`: what a model's step sends, what that takes here, and which primitive or cache would take less.

In:  a model's shape, a split over ranks, a step; where times come from. Out: an `Advice`.
May not touch: the terminal, ranks, the store. Nothing is measured: times are a table's or the cost model's, and say so.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from .errors import UsageError
from .models import KvCache, ModelCall, ModelShape, Phase, Split, Step, activation_bytes, calls_of, kv_cache
from .plan.workload import Workload, WorkloadCall
from .report.advice import Advice, Alternative, TimedCall, TimeSource
from .runtime import Source
from .simulate import Subject, simulate
from .table import Rule
from .types import Collective, DType, Evidence, Memory, OpClass, RuleKey, round_up_message
from .units import format_bytes

TimeOf = Callable[[ModelCall], tuple[float, str, TimeSource] | None]
"""A call -> (microseconds of one, config in words, where that is from); None where nothing tells."""


def predicted(machine: Subject) -> TimeOf:
    """Times by the cost model of a machine; None for what the machine does not have so many ranks for."""

    def time_of(call: ModelCall) -> tuple[float, str, TimeSource] | None:
        if call.collective is None:
            return None
        try:
            (found,) = simulate(machine, call.collective, (call.message_bytes,), (call.n_ranks,), dtype=call.dtype)
        except UsageError:
            return None
        return found.best.time_us, str(found.best.config), TimeSource.PREDICTED

    return time_of


def tuned(source: Source, backend: str = "native") -> TimeOf:
    """Times of a table: measured at the sizes where its rules begin, interpolated in logarithms between them."""
    table = source.table

    def time_of(call: ModelCall) -> tuple[float, str, TimeSource] | None:
        if call.collective is None:
            return None
        computes = call.collective.computes
        key = RuleKey(
            backend=backend,
            collective=call.collective,
            dtype=call.dtype if computes else None,
            op_class=OpClass.SUM if computes else None,
            n_ranks=call.n_ranks,
            placement=(call.n_ranks,),
            memory=Memory.PRIVATE,
        )
        rules = [rule for rule in table.rules.get(key, ()) if rule.evidence is Evidence.MEASURED]
        size = round_up_message(call.collective, call.message_bytes, call.n_ranks, call.dtype.itemsize)
        return _between(rules, size)

    return time_of


def first_of(*sources: TimeOf) -> TimeOf:
    """The first source that tells."""

    def time_of(call: ModelCall) -> tuple[float, str, TimeSource] | None:
        return next((found for source in sources if (found := source(call)) is not None), None)

    return time_of


def advise(
    shape: ModelShape,
    split: Split,
    step: Step,
    time_of: TimeOf,
    *,
    dtype: DType = DType.BFLOAT16,
    memory_bytes: int | None = None,
) -> Advice:
    """The calls of a step with their times, what else could be done, and what would not fit.

    Args:
        memory_bytes: of a device, for warnings; None where it is not known.

    Raises:
        UsageError: the model cannot be split so.
    """
    calls = _timed(calls_of(shape, split, step, dtype), time_of)
    cache = kv_cache(shape, split, step, dtype)
    caches = () if step.phase is Phase.TRAIN else _caches(shape, split, dtype, cache, time_of)  # training keeps none
    alternatives = (*_primitives(shape, split, step, dtype, time_of), *caches)
    return Advice(
        model=shape,
        split=split,
        step=step,
        dtype=dtype,
        calls=calls,
        alternatives=alternatives,
        kv_cache=cache,
        warnings=tuple(_warnings(alternatives, memory_bytes)),
    )


def workload(calls: Sequence[ModelCall]) -> Workload:
    """The collectives of a step as `autotune run` measures them; sends between stages are left out.

    Raises:
        UsageError: nothing is sent.
    """
    found: dict[tuple[Collective, int, int, DType | None], float] = {}
    for call in calls:
        if call.collective is not None:
            key = (call.collective, call.message_bytes, call.n_ranks, call.dtype)
            found[key] = found.get(key, 0.0) + call.calls_per_step
    if not found:
        raise UsageError(
            "a step of this split calls no collective", remedy="give --tensor-parallel or --expert-parallel"
        )
    return Workload(
        calls=tuple(
            WorkloadCall(collective=what, message_bytes=size, n_ranks=ranks, dtype=dtype, calls_per_step=times)
            for (what, size, ranks, dtype), times in found.items()
        )
    )


def _timed(calls: Sequence[ModelCall], time_of: TimeOf) -> tuple[TimedCall, ...]:
    timed = []
    for call in calls:
        found = time_of(call)
        time_us, config, source = found if found is not None else (None, None, None)
        timed.append(TimedCall(call=call, time_us=time_us, config=config, source=source))
    return tuple(timed)


def _between(rules: Sequence[Rule], size: int) -> tuple[float, str, TimeSource] | None:
    at = bisect_right([rule.from_bytes for rule in rules], size) - 1
    if at < 0 or size >= rules[at].to_bytes:
        return None
    here = rules[at]
    if size == here.from_bytes:
        return here.median_us, str(here.config), TimeSource.MEASURED
    if at + 1 == len(rules):
        return None
    above = rules[at + 1]
    share = math.log(size / here.from_bytes) / math.log(above.from_bytes / here.from_bytes) if here.from_bytes else 0.0
    return here.median_us * (above.median_us / here.median_us) ** share, str(here.config), TimeSource.INTERPOLATED


def _primitives(shape: ModelShape, split: Split, step: Step, dtype: DType, time_of: TimeOf) -> tuple[Alternative, ...]:
    """A tensor-parallel step with all_reduce, and with reduce_scatter and all_gather, by what each takes and keeps."""
    if split.tensor == 1:
        return ()
    found = []
    for sequence, words in ((False, "all_reduce"), (True, "reduce_scatter + all_gather (sequence parallel)")):
        other = replace(split, sequence=sequence)
        try:
            calls = calls_of(shape, other, step, dtype)
        except UsageError as err:
            found.append(Alternative(name=words, chosen=False, step_us=None, memory_bytes=None, note=err.message))
            continue
        timed = _timed([call for call in calls if call.n_ranks == split.tensor and call.collective], time_of)
        known = [one.step_us for one in timed]
        found.append(
            Alternative(
                name=words,
                chosen=split.sequence is sequence,
                step_us=None if None in known else sum(us for us in known if us is not None),
                memory_bytes=activation_bytes(shape, other, step, dtype),
                note="of one layer, kept for backward" if step.phase is Phase.TRAIN else "between blocks",
            )
        )
    return tuple(found)


def _caches(shape: ModelShape, split: Split, dtype: DType, cache: KvCache, time_of: TimeOf) -> tuple[Alternative, ...]:
    """Attention on the own heads of a sharded cache, against a cache gathered layer by layer, or whole."""
    if split.tensor == 1 or not cache.has_heads:
        what = "KV cache" if cache.has_heads else "KV latent, whole on every rank"
        return (Alternative(name=what, chosen=True, step_us=0.0, memory_bytes=cache.own_bytes, note="no call"),)
    gather = ModelCall(
        where="KV cache",
        collective=Collective.ALL_GATHER,
        message_bytes=cache.layer_bytes,
        n_ranks=split.tensor,
        dtype=dtype,
        calls_per_step=-(-shape.layers // split.pipeline),
    )
    (timed,) = _timed([gather], time_of)
    return (
        Alternative(
            name="KV cache sharded by heads", chosen=True, step_us=0.0, memory_bytes=cache.own_bytes, note="no call"
        ),
        Alternative(
            name="KV cache gathered layer by layer",
            chosen=False,
            step_us=timed.step_us,
            memory_bytes=cache.own_bytes + cache.layer_bytes,
            note=f"an all_gather of {format_bytes(cache.layer_bytes)} a layer and step",
        ),
        Alternative(
            name="KV cache kept gathered",
            chosen=False,
            step_us=None,
            memory_bytes=cache.gathered_bytes,
            note="2 x N x S x H x D x itemsize for every layer",
        ),
    )


def _warnings(alternatives: Sequence[Alternative], memory_bytes: int | None) -> Iterator[str]:
    """What would not fit, before somebody allocates it."""
    if memory_bytes is None:
        return
    for one in alternatives:
        if one.memory_bytes is not None and one.memory_bytes > memory_bytes:
            yield f"{one.name}: {format_bytes(one.memory_bytes)} a rank, and a device has {format_bytes(memory_bytes)}"
