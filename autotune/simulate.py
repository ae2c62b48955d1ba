"""`autotune simulate`: what collectives would take on a machine that need not be here, and which config would be best.

In:  a machine's name or a topology's file, a collective, sizes, rank counts, perhaps trials of that machine. Out:
`Prediction` values, and a tuning table whose rules say that they are simulated.
May not touch: the terminal, ranks, the store.

Prices come from `cost`; every legal algorithm is priced with every segment size that makes a difference. The default
config stays where nothing is clearly better, as in a table that was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from .backends.native import REFERENCE
from .cost import (
    CostModel,
    HostModel,
    NetworkModel,
    Timed,
    fit_host,
    fit_network,
    least_us,
    machine_model,
    model_of,
    timed,
)
from .distil import size_ranges
from .errors import UsageError
from .hccl import Soc, facts
from .hccl.groups import BACKEND as HCCL
from .hccl.prediction import HcclPrediction, predict
from .hccl.probed import soc_of_machine, soc_of_topology
from .kernels.schedules.registry import ALGORITHMS
from .probing import gather
from .report.simulation import Prediction, Priced
from .space import SEGMENTS, native_candidates
from .table import DefaultRules, Rule, TuningTable, native_defaults
from .topology.fingerprint import fingerprint
from .topology.graph import Topology
from .topology.machines import MachineDescription, description, machine_names
from .types import Collective, Config, DType, Evidence, Memory, Problem, ReduceOp, RuleKey, Trial, round_up_message

BACKEND = "native"
"""The table's rules name schedules of the registry, as the native backend's do."""

NETWORK_SEGMENTS = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
"""Segment sizes of the grid where messages travel over links, in bytes."""

_CLEARLY = 0.99  # a config that takes more than this share of the default's time does not replace it
_MODE = "HCCL_OP_EXPANSION_MODE"
_TEST = "none: predicted by the cost model, not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The machine that is simulated.

    Args:
        title: for people.
        place: a description, or a topology that was probed or written down.
        n_hosts: None is as many as the ranks need, or as the topology has.
        measured: times of the native executor there, to which the model's constants are fitted.
    """

    title: str
    place: MachineDescription | Topology
    n_hosts: int | None
    staging_bytes: int
    measured: tuple[Timed, ...] = ()

    @property
    def fingerprint(self) -> str | None:
        """Of a topology; None for a description, which leaves out what tells one host from another."""
        return fingerprint(self.place) if isinstance(self.place, Topology) else None

    @property
    def n_ranks(self) -> int:
        """One for each device that a rank can sit on."""
        if isinstance(self.place, Topology):
            return len(self.place.rank_devices())
        return self._seats * (self.n_hosts or 1)

    def model(self, n_ranks: int) -> CostModel:
        """The cost model of so many ranks.

        Raises:
            UsageError: the machine does not have so many, or nothing tells the bandwidth between some of them.
        """
        if isinstance(self.place, Topology):
            return _fitted(model_of(self.place, n_ranks, staging_bytes=self.staging_bytes), self.measured)
        if self._one_host(n_ranks) and not self.place.host.accelerators():
            return model_of(self.place.host, n_ranks, staging_bytes=self.staging_bytes)
        return machine_model(self.place, self.n_hosts or -(-n_ranks // self._seats), n_ranks)

    def placement(self, n_ranks: int) -> tuple[int, ...]:
        """Ranks on each host, ascending."""
        if isinstance(self.place, MachineDescription):
            return (n_ranks,) if self._one_host(n_ranks) else (self._seats,) * (n_ranks // self._seats)
        if len(self.place.hosts) == 1:
            return (n_ranks,)
        hosts = [self.place.host_of(device.id).id for device in self.place.rank_devices()[:n_ranks]]
        return tuple(sorted(hosts.count(host) for host in set(hosts)))

    @property
    def _seats(self) -> int:
        """Devices of one host that a rank can sit on."""
        assert isinstance(self.place, MachineDescription)
        return len(self.place.host.rank_devices())

    def _one_host(self, n_ranks: int) -> bool:
        return self.n_hosts == 1 or n_ranks <= self._seats


def subject(words: str, n_hosts: int | None, *, staging_bytes: int) -> Subject:
    """What ``--topology`` names.

    Raises:
        UsageError: neither a machine nor a file, or a number of hosts for a topology that has its own.
        ProbeError: nothing can be built of what is there.
    """
    if words in machine_names():
        place = description(words)
        hosts = "" if n_hosts is None or n_hosts == 1 else f"{n_hosts} hosts: "
        return Subject(title=f"{hosts}{place.title}", place=place, n_hosts=n_hosts, staging_bytes=staging_bytes)
    path = Path(words)
    if not path.exists():
        raise UsageError(
            f"--topology {words!r} is neither a machine nor a file or folder that is there",
            remedy=f"give what `autotune probe --json` or --save wrote, or one of {', '.join(machine_names())}",
        )
    if n_hosts is not None:
        raise UsageError(f"--hosts {n_hosts} for a topology from a file", remedy="leave it out: the file says it")
    return Subject(title=path.name, place=gather([path]), n_hosts=None, staging_bytes=staging_bytes)


def with_trials(machine: Subject, trials: Iterable[Trial]) -> Subject:
    """The machine with what was measured on it; configs with codecs or knobs, which no model prices, are left out.

    Raises:
        UsageError: nothing in the trials can be priced.
    """
    measured = tuple(
        one
        for one in timed(trials)
        if one.problem.key.backend == BACKEND
        and one.problem.key.memory is Memory.PRIVATE
        and one.problem.key.max_error is None
        and one.problem.key.n_ranks > 1
        and one.config.codec == "none"
        and not one.config.knobs
    )
    if not measured:
        raise UsageError(
            f"{machine.title}: no trials of it that a model could be fitted to", remedy="autotune run, on that machine"
        )
    return replace(machine, measured=measured)


def _fitted(model: CostModel, measured: Sequence[Timed]) -> CostModel:
    """The model with the constants that these times say; as it is where none of them is about its ranks."""
    match model:
        case HostModel():
            here = [one for one in measured if len(one.problem.key.placement) == 1]
            return fit_host(model, here)
        case NetworkModel():
            legal = [one for one in measured if one.problem.key.n_ranks == model.n_ranks]
            return fit_network(model, [one for one in legal if one.config.algorithm in _names(model, one)])
    return model


def _names(model: CostModel, one: Timed) -> tuple[str, ...]:
    return model.algorithms(one.problem.key.collective)


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
        _predicted(machine, model, size, _key(collective, n_ranks, machine.placement(n_ranks), dtype, op))
        for n_ranks in ranks
        for model in (machine.model(n_ranks),)
        for size in sizes
    ]


def scaling_ranks(machine: Subject, most: int) -> tuple[int, ...]:
    """2, 4, 8 ... and the most, as far as the machine's hosts can be filled evenly."""
    counts = [1 << k for k in range(1, most.bit_length()) if 1 << k < most]
    if isinstance(machine.place, MachineDescription):
        seats = len(machine.place.host.rank_devices())
        counts = [n for n in counts if n <= seats or n % seats == 0]
    return (*counts, most)


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
        defaults=_defaults(),
    )


def _defaults() -> DefaultRules:
    return native_defaults()


def _key(collective: Collective, n_ranks: int, placement: tuple[int, ...], dtype: DType, op: ReduceOp) -> RuleKey:
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
    default = _defaults().lookup(key, rounded)
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


def simulate_hccl(
    machine: Subject,
    collective: Collective,
    sizes: Sequence[int],
    ranks: Iterable[int],
    *,
    soc: Soc | None = None,
    mode: str | None = None,
    dtype: DType = DType.FLOAT32,
    op: ReduceOp = ReduceOp.SUM,
) -> list[HcclPrediction]:
    """What HCCL's own choice is predicted to lose, for each rank count and size, in this order.

    Args:
        soc: None asks the machine.
        mode: HCCL_OP_EXPANSION_MODE; None: not set.

    Raises:
        UsageError: no machine of a known family of chips, a mode that it does not have, or a choice that is not
            published.
    """
    known = facts(soc or _soc_of(machine))
    modes = known.variables[_MODE].words
    if mode is not None and mode not in modes:
        raise UsageError(
            f"mode {mode!r} is not one of {known.soc.value}'s", remedy=f"use one of {', '.join(modes) or 'none'}"
        )
    found = []
    for n_ranks in ranks:
        model = machine.model(n_ranks)
        if not isinstance(model, NetworkModel):
            raise UsageError("HCCL's ranks sit on NPUs", remedy="give a machine with NPUs, such as atlas-800t-a2")
        key = replace(_key(collective, n_ranks, machine.placement(n_ranks), dtype, op), backend=HCCL)
        for size in sizes:
            rounded = round_up_message(collective, size, n_ranks, key.dtype.itemsize if key.dtype else 1)
            found.append(predict(known, model, Problem(key=key, message_bytes=rounded), mode))
    return found


def _soc_of(machine: Subject) -> Soc:
    place = machine.place
    found = soc_of_machine(place.name) if isinstance(place, MachineDescription) else soc_of_topology(place)
    if found is None:
        raise UsageError(f"{machine.title}: no NPUs of a known family", remedy="give --soc A2, A3, 910A or 310P")
    return found
