"""A machine that nobody owns: times from the cost model, seeded noise, faults on demand. The loop is tested on it.

In:  problems and configs, a `Machine`, a seed.
Out: the outcomes that a `measure.Backend` gives, and the seconds that measuring them would have taken.
May not touch: clocks, processes, global random state. A sample is a function of seed, problem, config, kind and batch,
so that a run that is continued sees the samples that it would have seen.

Times are prices of ``cost``, by default on a switch that never blocks; any other cost model does, such as one derived
from a topology.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..cost import CostModel, NetworkModel, NetworkParameters, crossbar
from ..measure import Failure, Outcome, Timing, batch_calls
from ..space import native_candidates
from ..table import DefaultRow, DefaultRules
from ..types import Collective, Config, Layout, Problem, SampleKind

NAME = "simulated"
DEFAULT = Config(algorithm="direct", segment_bytes=256 << 10)
REFERENCE = Config(algorithm="ring", segment_bytes=64 << 10)
_HANDLING = 1.5  # writing and checking buffers, as a multiple of the time that is measured
_ROUND_TRIP_S = 100e-6  # telling the ranks what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The simulated machine.

    Args:
        latency_us: of a message over the switch.
        bandwidth_gb_per_s: of each rank's port, each way; 1e9 bytes per second.
        noise: standard deviation of the log of a sample.
        spike_rate: how often a sample is ten times too slow, as after losing the processor.
        slow_phase_rate: how often a whole round runs at a third of the speed.
        models: from a number of ranks to a cost model, in place of the switch.
    """

    latency_us: float = 1.0
    bandwidth_gb_per_s: float = 10.0
    noise: float = 0.05
    spike_rate: float = 0.0
    slow_phase_rate: float = 0.0
    models: Callable[[int], CostModel] | None = None

    def model(self, n_ranks: int) -> CostModel:
        """The cost model of so many ranks."""
        if self.models is not None:
            return self.models(n_ranks)
        return _on_a_switch(n_ranks, self.latency_us, self.bandwidth_gb_per_s)


@functools.lru_cache(maxsize=64)
def _on_a_switch(n_ranks: int, latency_us: float, bandwidth_gb_per_s: float) -> NetworkModel:
    return NetworkModel(
        fabric=crossbar(n_ranks, gb_per_s=bandwidth_gb_per_s, latency_us=latency_us),
        layout=Layout(order=tuple(range(n_ranks))),
        parameters=NetworkParameters(call_us=0.0, message_us=0.1 * latency_us),
    )


@functools.lru_cache(maxsize=65536)
def model_us(machine: Machine, problem: Problem, config: Config) -> float:
    """Microseconds of one call without noise; rounded, so that configs that do the same are equal."""
    return round(machine.model(problem.key.n_ranks).price(problem, config).time_us, 6)


def simulated_defaults(config: Config = DEFAULT) -> DefaultRules:
    """The backend's default as rules: one config for everything."""
    rows = (DefaultRow(collective=c, ranks_from=1, ranks_to=None, from_bytes=0, config=config) for c in Collective)
    return DefaultRules(backend=NAME, rows=tuple(rows))


class SimulatedBackend:
    """A `measure.Backend`.

    Args:
        time_us: the true time of a config, in place of the model.
        fault: what goes wrong when a config runs in a batch; None: nothing.
        default: the opponent of every candidate.
    """

    name = NAME

    def __init__(
        self,
        machine: Machine | None = None,
        *,
        seed: int = 0,
        time_us: Callable[[Problem, Config], float] | None = None,
        fault: Callable[[Problem, Config, int], Failure | None] | None = None,
        default: Config = DEFAULT,
    ) -> None:
        self._machine = machine or Machine()
        self._seed = seed
        self._time_us = time_us or (lambda problem, config: model_us(self._machine, problem, config))
        self._fault = fault or (lambda problem, config, batch: None)
        self._default = default
        self.elapsed_s = 0.0
        self.n_samples = 0
        self.n_restarts = 0

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        model = self._machine.model(problem.key.n_ranks)
        return native_candidates(
            problem,
            names=lambda collective, n_ranks: model.algorithms(collective),
            slices=lambda config: model.slices(problem, config),
            preferred=(self._default, REFERENCE),
        )

    def default(self, problem: Problem) -> Config:
        return self._default

    def reference(self, problem: Problem) -> Config | None:
        return REFERENCE

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        phase = random.Random(f"{self._seed} {problem} {kind} {batch}")
        speed = 3.0 if phase.random() < self._machine.slow_phase_rate else 1.0
        return [self._sample(problem, config, kind, batch, speed) for config in configs]

    def restart(self) -> None:
        self.n_restarts += 1

    def close(self) -> None:
        return

    def clock(self) -> float:
        """Simulated seconds since the backend was made; stands in for time.monotonic."""
        return self.elapsed_s

    def _sample(self, problem: Problem, config: Config, kind: SampleKind, batch: int, speed: float) -> Outcome:
        self.n_samples += 1
        failure = self._fault(problem, config, batch)
        if failure is not None:
            self.elapsed_s += _ROUND_TRIP_S
            return failure
        luck = random.Random(f"{self._seed} {problem} {config} {kind} {batch}")
        true_us = self._time_us(problem, config)
        time_us = true_us * speed * math.exp(luck.gauss(0.0, self._machine.noise))
        if luck.random() < self._machine.spike_rate:
            time_us *= 10.0
        calls = batch_calls(true_us)
        self.elapsed_s += _ROUND_TRIP_S + (1 + _HANDLING) * time_us * calls * 1e-6
        return Timing(time_us=time_us, batch_calls=calls)
