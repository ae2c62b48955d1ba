"""What our own schedules would take on a machine, and which config would be best; a table of simulated rules.

In:  a `Subject`, a collective, sizes, rank counts. Out: `Prediction` values, and a tuning table whose rules say that
they are simulated. May not touch: ranks, the store.

Prices come from `cost`; every legal algorithm is priced with every segment size that makes a difference. The default
config stays where nothing is clearly better, as in a table that was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ..backends.native import REFERENCE
from ..cost import CostModel, HostModel, NetworkModel, least_us
from ..distil import size_ranges
from ..kernels.schedules.registry import ALGORITHMS
from ..report.simulation import Prediction, Priced
from ..space import SEGMENTS, native_candidates
from ..table import Rule, TuningTable, native_defaults
from ..types import Collective, Config, DType, Evidence, Problem, ReduceOp, RuleKey, round_up_message
from .machine import BACKEND, Subject

NETWORK_SEGMENTS = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
"""Segment sizes of the grid where messages travel over links, in bytes."""

_CLEARLY = 0.99  # a config that takes more than this share of the default's time does not replace it
_TEST = "none: predicted by the cost model, not measured"


def simulate(
    machine: Subject,
    collective: Collective,
    sizes: Sequence[int],
    ranks: Iterable[int],
    *,
    dtype: DType = DType.FLOAT32,
    op: ReduceOp = ReduceOp.SUM,
) -> list[Prediction]:
    """A prediction for each rank count and size, in this order.

    Raises:
        UsageError: a rank count that the machine does not have.
    """
    return [
        _predicted(machine, model, size, rule_key(collective, n_ranks, machine.placement(n_ranks), dtype, op))
        for n_ranks in ranks
        for model in (machine.model(n_ranks),)
        for size in sizes
    ]


def table_of(machine: Subject, predictions: Iterable[Prediction]) -> TuningTable:
    """The best predicted configs as rules; ``select`` uses them when it is asked for simulated evidence."""
    by_key: dict[RuleKey, list[Prediction]] = {}
    for prediction in predictions:
        by_key.setdefault(prediction.problem.key, []).append(prediction)
    rules: dict[RuleKey, tuple[Rule, ...]] = {}
    for key, found in by_key.items():
        distinct = {one.problem.message_bytes: one for one in found}
        ordered = [distinct[size] for size in sorted(distinct)]
        ranges = size_ranges([one.problem.message_bytes for one in ordered])
        rules[key] = tuple(_rule(one, sizes) for one, sizes in zip(ordered, ranges, strict=True))
    return TuningTable(
        fingerprint=machine.fingerprint,
        environment={"simulated": machine.title},
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        test=_TEST,
        rules=rules,
        defaults=native_defaults(),
    )


def rule_key(collective: Collective, n_ranks: int, placement: tuple[int, ...], dtype: DType, op: ReduceOp) -> RuleKey:
    """The key of a call on private memory, without loss."""
    return RuleKey(
        backend=BACKEND,
        collective=collective,
        dtype=dtype if collective.computes else None,
        op_class=op.op_class if collective.computes else None,
        n_ranks=n_ranks,
        placement=placement,
    )


def _predicted(machine: Subject, model: CostModel, size: int, key: RuleKey) -> Prediction:
    itemsize = key.dtype.itemsize if key.dtype else 1
    rounded = round_up_message(key.collective, size, key.n_ranks, itemsize)
    problem = Problem(key=key, message_bytes=rounded)
    default = native_defaults().lookup(key, rounded)
    configs = native_candidates(
        problem,
        names=lambda collective, n_ranks: model.algorithms(collective),
        slices=lambda config: model.slices(problem, config),
        preferred=(default, REFERENCE),
        segments=SEGMENTS if isinstance(model, HostModel) else NETWORK_SEGMENTS,
    )
    priced = sorted(
        (Priced(config=config, time_us=model.price(problem, config).time_us) for config in configs),
        key=lambda one: one.time_us,
    )
    return Prediction(
        size_bytes=size,
        problem=problem,
        priced=tuple(_default_first(priced, default)),
        default=default,
        least_us=_least(model, problem),
        refused=_refused(key.collective, key.n_ranks, model),
    )


def _default_first(priced: list[Priced], default: Config) -> list[Priced]:
    """The default before everything that is not clearly faster."""
    own = next((one for one in priced if one.config == default), None)
    if own is None:
        return priced
    faster = [one for one in priced if one.time_us < _CLEARLY * own.time_us]
    if faster:
        return priced
    return [own, *(one for one in priced if one is not own)]


def _least(model: CostModel, problem: Problem) -> float | None:
    if not isinstance(model, NetworkModel):
        return None
    return least_us(model.fabric, model.layout.groups, problem.key.collective, problem.message_bytes)


def _refused(collective: Collective, n_ranks: int, model: CostModel) -> tuple[tuple[str, str], ...]:
    """(algorithm, why not) of those that carry out the collective, but not here; hierarchical only given groups."""
    legal = model.algorithms(collective)
    groups = model.layout.groups if isinstance(model, NetworkModel) else ()
    return tuple(
        (algorithm.name, objection)
        for algorithm in ALGORITHMS
        if algorithm.name not in legal and collective in (algorithm.collectives if groups else algorithm.plain)
        if (objection := algorithm.objection(collective, n_ranks, groups)) is not None
    )


def _rule(prediction: Prediction, sizes: tuple[int, int]) -> Rule:
    best = prediction.priced[0]
    is_default = best.config == prediction.default
    gain = None if is_default else prediction.over(prediction.default)
    return Rule(
        from_bytes=sizes[0],
        to_bytes=sizes[1],
        config=best.config,
        evidence=Evidence.SIMULATED,
        is_default=is_default,
        n_rounds=1,
        median_us=best.time_us,
        low_us=best.time_us,
        high_us=best.time_us,
        gain=gain,
        gain_low=gain,
        gain_high=gain,
        ring_gain=prediction.over(REFERENCE),
    )
