"""What HCCL's own choice is predicted to lose: its branches, its settings and our schedules, priced alike. Pure.

In:  the cost model of a machine of one family of chips, calls. Out: `HcclPrediction` values.
May not touch: files, devices. Nothing here was measured; docs/ascend.md says what was compared with published figures.

On one server a branch is one of our schedules under what its engine costs. Between servers HCCL works in three parts,
one after the other: inside the servers, between devices of the same number, and inside again; ``pipeline`` overlaps
them. The parts between servers are priced on the way from one server to the next, without contention in the network.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cost import Fabric, NetworkModel, NetworkParameters, crossbar
from ..errors import UsageError
from ..kernels.schedules.registry import cost_figures
from ..portfolio.knobs import PIECES
from ..types import Collective, Config, Layout, Problem
from .facts import Engine, SelectionRules, SocFacts
from .groups import AUTO, PORTABLE, mode_of
from .legal import candidates
from .selection import PIPELINE, Choice, Shape, own_choice

_SEGMENTS = (None, 256 << 10, 1 << 20, 4 << 20)
_MODE = "HCCL_OP_EXPANSION_MODE"
_BETWEEN = {
    Collective.ALL_REDUCE: {"ring": "ring", "NHR": "nhr", "H-D_R": "recursive_halving_doubling", "NB": "bruck"},
    Collective.ALL_GATHER: {"ring": "ring", "NHR": "nhr", "H-D_R": "recursive_doubling", "NB": "bruck"},
    Collective.REDUCE_SCATTER: {"ring": "ring", "NHR": "nhr", "H-D_R": "recursive_halving_doubling", "NB": "bruck"},
}
"""What HCCL's algorithms are among ours (exchange/words.json has the same for exporters)."""

_INSIDE = {
    Collective.ALL_REDUCE: (Collective.REDUCE_SCATTER, Collective.ALL_GATHER),
    Collective.ALL_GATHER: (Collective.ALL_GATHER,),
    Collective.REDUCE_SCATTER: (Collective.REDUCE_SCATTER,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HcclPrediction:
    """One call.

    Args:
        choice: what HCCL does by itself.
        default_us: what that is predicted to take.
        priced: every other config that may be tried and has a price, the fastest first.
    """

    problem: Problem
    choice: Choice
    default_us: float
    priced: tuple[tuple[Config, float], ...]

    @property
    def best(self) -> tuple[Config, float]:
        """The fastest way, which may be HCCL's own."""
        own = (Config(algorithm=AUTO), self.default_us)
        return min((own, *self.priced), key=lambda pair: pair[1])

    @property
    def loss(self) -> float:
        """HCCL's own choice over the fastest way, less one."""
        return self.default_us / self.best[1] - 1.0


def predict(facts: SocFacts, model: NetworkModel, problem: Problem, mode: str | None = None) -> HcclPrediction:
    """Price one call.

    Args:
        mode: HCCL_OP_EXPANSION_MODE; None: not set.

    Raises:
        UsageError: the choice of HCCL on these chips or for this collective is not published.
    """
    rules = facts.selection
    key = problem.key
    if rules is None or key.collective not in facts.own_choices:
        known = ", ".join(collective.value for collective in facts.own_choices)
        raise UsageError(
            f"HCCL's own choice for {key.collective.value} on {facts.soc.value} is not published",
            remedy=f"simulate one of {known}" if known else "autotune simulate without --backend hccl",
        )
    default_mode = str(facts.variables[_MODE].default or "HOST")
    machine = _Machine(facts, rules, model, len(key.placement), default_mode)
    taken = machine.choice(problem, mode or default_mode)
    default_us = None if taken is None else machine.price(problem, taken)
    if taken is None or default_us is None:
        raise UsageError(
            f"no branch of HCCL is published for {key}", remedy="give a rank count that fills whole servers"
        )
    ordered = sorted(dict(machine.others(problem)).items(), key=lambda pair: (pair[1], str(pair[0])))
    return HcclPrediction(problem=problem, choice=taken, default_us=default_us, priced=tuple(ordered))


def first_measurement(predictions: Sequence[HcclPrediction]) -> HcclPrediction | None:
    """The call whose measurement says most: where the predicted loss is greatest; None where nothing is lost."""
    worst = max(predictions, key=lambda one: (one.loss, one.default_us - one.best[1]), default=None)
    return worst if worst is not None and worst.loss > 0.0 else None


class _Machine:
    """A machine with its prices."""

    def __init__(
        self, facts: SocFacts, rules: SelectionRules, model: NetworkModel, servers: int, default_mode: str
    ) -> None:
        self._facts, self._rules, self._model = facts, rules, model
        self._servers = servers
        self._devices = model.n_ranks // servers
        self._default_mode = default_mode

    def choice(self, problem: Problem, mode: str) -> Choice | None:
        shape = Shape(
            collective=problem.key.collective,
            message_bytes=problem.message_bytes,
            servers=self._servers,
            devices=self._devices,
        )
        return own_choice(self._rules, shape, mode, self._default_mode)

    def price(self, problem: Problem, choice: Choice) -> float | None:
        """Of a branch; None where a part of it has no schedule of ours."""
        engine = self._rules.engines.get(choice.engine)
        if engine is None:
            return None
        whole = "direct" if choice.level1 == "direct" else choice.schedule
        if whole is not None:
            time_us = _least_us(self._under(engine, self._model), problem, whole)
        else:
            time_us = self._between(problem, str(choice.level1), engine)
        return None if time_us is None else max(time_us, engine.floor_us)

    def others(self, problem: Problem) -> Iterator[tuple[Config, float]]:
        """What may be tried besides, with its price where there is one."""
        portable = [
            Config(algorithm=name, segment_bytes=segment)
            for name in self._model.algorithms(problem.key.collective)
            for segment in _SEGMENTS
        ]
        plain = self._rules.engines[self._default_mode]
        for config in candidates(self._facts, problem, portable):
            own_mode = mode_of(config.knobs, ())
            time_us: float | None = None
            if config.algorithm.startswith(PORTABLE):
                named = replace(config, algorithm=config.algorithm.removeprefix(PORTABLE))
                time_us = self._portable(problem, named, plain)
            elif config.algorithm != AUTO:
                between = self._between(problem, config.algorithm, plain)
                time_us = None if between is None else max(between, plain.floor_us)
            elif own_mode is not None:
                time_us = self._under_mode(problem, own_mode, int(dict(config.knobs).get(PIECES, 1)))
            if time_us is not None:
                yield config, time_us

    def _portable(self, problem: Problem, config: Config, engine: Engine) -> float:
        """Every step of every slice is a call of HCCL, and none is taken to be cheaper than the engine's least."""
        key = problem.key
        steps, _ = cost_figures(key.collective, config.algorithm, key.n_ranks, self._model.layout)
        calls = steps * self._model.slices(problem, config)
        return self._under(engine, self._model).price(problem, config).time_us + calls * engine.floor_us

    def _under_mode(self, problem: Problem, mode: str, pieces: int) -> float | None:
        """So many calls, and the copies that put their results together."""
        part = replace(problem, message_bytes=problem.message_bytes // pieces)
        taken = self.choice(part, mode)
        time_us = None if taken is None else self.price(part, taken)
        if time_us is None or pieces == 1:
            return time_us
        return pieces * time_us + problem.message_bytes / (self._rules.copy_gb_per_s * 1e3)

    def _between(self, problem: Problem, word: str, engine: Engine) -> float | None:
        """Three parts one after the other; pipeline overlaps them."""
        collective = problem.key.collective
        inside = 0.0
        if self._devices > 1:
            host = self._under(engine, self._host)
            for part in _INSIDE[collective]:
                own = _problem(problem, part, self._devices, problem.message_bytes)
                time_us = _least_us(host, own, "direct")
                if time_us is None:
                    return None
                inside += time_us - engine.call_us
        name = _BETWEEN[collective].get("ring" if word == PIPELINE else word)
        if name is None:
            return None
        share = -(-problem.message_bytes // self._devices)
        between = _least_us(self._under(engine, self._way), _problem(problem, collective, self._servers, share), name)
        if between is None:
            return None
        if word == PIPELINE:
            return max(inside, between) + min(inside, between) / self._servers
        return inside + between

    @functools.cached_property
    def _host(self) -> NetworkModel:
        pattern = self._model.fabric.host
        return NetworkModel(fabric=Fabric(host=pattern), layout=Layout(order=tuple(range(pattern.n_ranks))))

    @functools.cached_property
    def _way(self) -> NetworkModel:
        """Devices of one number, a switch between them that never blocks."""
        route = self._model.fabric.routes(np.zeros(1, np.int32), np.full(1, self._devices, np.int32))
        used = [resource for resource in route.resources[0] if resource >= 0]
        gb_per_s = float(self._model.fabric.capacities()[used].min())
        fabric = crossbar(self._servers, gb_per_s=gb_per_s, latency_us=float(route.latency_us[0]))
        return NetworkModel(fabric=fabric, layout=Layout(order=tuple(range(self._servers))))

    @staticmethod
    def _under(engine: Engine, model: NetworkModel) -> NetworkModel:
        parameters = NetworkParameters(call_us=engine.call_us, message_us=engine.message_us)
        return replace(model, parameters=parameters)


def _problem(whole: Problem, collective: Collective, n_ranks: int, message_bytes: int) -> Problem:
    """A part of a call as a call of its own."""
    key = whole.key
    computes = collective.computes
    own = replace(
        key,
        collective=collective,
        n_ranks=n_ranks,
        placement=(n_ranks,),
        dtype=key.dtype if computes else None,
        op_class=key.op_class if computes else None,
    )
    return Problem(key=own, message_bytes=message_bytes)


def _least_us(model: NetworkModel, problem: Problem, name: str) -> float | None:
    """Of a schedule with its best segment; None where it is not legal."""
    if name not in model.algorithms(problem.key.collective):
        return None
    configs = [Config(algorithm=name, segment_bytes=segment) for segment in _SEGMENTS]
    return min(model.price(problem, config).time_us for config in configs)
