"""A machine that nobody owns: times from a formula, seeded noise, faults on demand. The tuning loop is tested on it.

In:  problems and configs, a `Machine`, a seed.
Out: the outcomes that a `measure.Backend` gives, and the seconds that measuring them would have taken.
May not touch: clocks, processes, global random state. A sample is a function of seed, problem, config, kind and batch,
so that a run that is continued sees the samples that it would have seen.

The formula is alpha-beta with pipelining (Hockney 1994; Thakur, Rabenseifner and Gropp 2005): a schedule of L steps
that sends W times the message, cut into s slices, takes (L + s - 1) (alpha + W bytes / (L s beta)).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..measure import Failure, Outcome, Timing, batch_calls
from ..space import native_candidates
from ..table import DefaultRow, DefaultRules
from ..types import Collective, Config, Problem, SampleKind

NAME = "simulated"
DEFAULT = Config(algorithm="direct", segment_bytes=256 << 10)
REFERENCE = Config(algorithm="ring", segment_bytes=64 << 10)
_HANDLING = 1.5  # writing and checking buffers, as a multiple of the time that is measured
_ROUND_TRIP_S = 100e-6  # telling the ranks what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The simulated host.

    Args:
        latency_us: alpha, the cost of one message.
        bandwidth_gb_per_s: beta, 1e9 bytes per second.
        noise: standard deviation of the log of a sample.
        spike_rate: how often a sample is ten times too slow, as after losing the processor.
        slow_phase_rate: how often a whole round runs at a third of the speed.
    """

    latency_us: float = 1.0
    bandwidth_gb_per_s: float = 10.0
    noise: float = 0.05
    spike_rate: float = 0.0
    slow_phase_rate: float = 0.0


def model_us(machine: Machine, problem: Problem, config: Config) -> float:
    """Microseconds of one call without noise."""
    n_ranks = problem.key.n_ranks
    steps, traffic = _shape(config.algorithm, n_ranks)
    if problem.key.collective is Collective.ALL_REDUCE:
        steps, traffic = 2 * steps, 2 * traffic
    slices = slices_of(problem, config)
    piece_us = traffic * problem.message_bytes / (steps * slices) / (machine.bandwidth_gb_per_s * 1e3)
    return (steps + slices - 1) * (machine.latency_us + piece_us)


def slices_of(problem: Problem, config: Config) -> int:
    """How many slices a config cuts the message into."""
    return max(1, math.ceil(problem.message_bytes / (config.segment_bytes or problem.message_bytes or 1)))


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

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return native_candidates(
            problem,
            names=lambda collective, n_ranks: _ALGORITHMS,
            slices=lambda config: slices_of(problem, config),
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


_ALGORITHMS = ("ring", "direct", "flat", "tree", "chain", "recursive_halving_doubling")


def _shape(algorithm: str, n_ranks: int) -> tuple[int, float]:
    """Steps, and bytes that the busiest rank sends as a multiple of the message, for one way through the ranks."""
    others, depth = max(1, n_ranks - 1), max(1, math.ceil(math.log2(n_ranks)))
    share = others / n_ranks
    match algorithm:
        case "ring":
            return others, share
        case "direct":
            return 1, 1.1 * share  # everybody sends to everybody: links collide
        case "flat":
            return 1, float(others)
        case "tree":
            return depth, float(depth)
        case "chain":
            return others, 1.0
        case _:
            return depth, share
