"""What schedules for ranks that share cores save: the default's own algorithm over each of them, round by round.

    python benchmarks/shared_cores.py [--collective all_reduce] [--ranks 4,8] [--sizes 16K,64K,256K,1M] [--rounds 11]

Ranks are bound to the cores that this process may use, in turn, so there have to be more of them than cores. Every
round runs all configs of a cell once, in random order, on fresh, checked inputs; a ratio is that of paired rounds with
its 95 % interval, and above 1 the schedule is the faster one. The segment is the shipped default's, or --segment.
Exit code 77: ranks share no cores here.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import replace

from autotune.backends.native import NativeBackend
from autotune.kernels import shared_core_names, sharing
from autotune.measure import Failure, paired_ratio
from autotune.settings import read
from autotune.types import (
    SHARED_CORES,
    Collective,
    Config,
    DType,
    Memory,
    OpClass,
    Phase,
    Problem,
    RuleKey,
    Sample,
    SampleKind,
    round_up_message,
)
from autotune.units import format_bytes, parse_bytes, parse_ranks, parse_sizes

NOT_HERE = 77
ITEM_BYTES = 4


def problem_of(collective: Collective, n_ranks: int, size: int, memory: Memory) -> Problem:
    """A call on float32, summed where elements are combined."""
    key = RuleKey(
        backend="native",
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
        memory=memory,
    )
    return Problem(key=key, message_bytes=round_up_message(collective, size, n_ranks, ITEM_BYTES))


def configs_of(own: Config, names: Sequence[str]) -> tuple[Config, ...]:
    """The default without the knob, then the same with each algorithm."""
    plain = tuple(knob for knob in own.knobs if knob[0] != SHARED_CORES)
    with_names = (tuple(sorted((*plain, (SHARED_CORES, name)))) for name in names)
    return tuple(replace(own, knobs=knobs) for knobs in (plain, *with_names))


def measure(backend: NativeBackend, problem: Problem, configs: Sequence[Config], rounds: int) -> list[str]:
    """A word for each config but the first: its name, the ratio and the interval."""
    samples: dict[Config, list[Sample]] = {config: [] for config in configs}
    for number in range(rounds):
        order = list(configs)
        random.Random(number).shuffle(order)
        outcomes = backend.measure_round(problem, order, kind=SampleKind.FRESH, batch=number)
        for position, (config, outcome) in enumerate(zip(order, outcomes, strict=True)):
            if isinstance(outcome, Failure):
                sys.exit(f"{config} failed: {outcome.message}")
            samples[config].append(
                Sample(
                    kind=SampleKind.FRESH,
                    phase=Phase.CONFIRM,
                    round=number,
                    position=position,
                    batch_calls=outcome.batch_calls,
                    time_us=outcome.time_us,
                )
            )
    words = []
    for config in configs[1:]:
        ratio = paired_ratio(samples[configs[0]], samples[config])
        words.append(f"{config.tuned_algorithm} {ratio.median:.2f} [{ratio.low or 0:.2f}, {ratio.high or 0:.2f}]")
    return words


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--collective", default="all_reduce", type=Collective)
    parser.add_argument("--ranks", default="4,8", type=parse_ranks)
    parser.add_argument("--sizes", default="16K,64K,256K,1M", type=parse_sizes)
    parser.add_argument("--memory", default="private", type=Memory)
    parser.add_argument("--segment", type=parse_bytes, help="instead of the default's")
    parser.add_argument("--rounds", default=11, type=int)
    chosen = parser.parse_args(arguments)
    settings, cores = read(), tuple(sorted(os.sched_getaffinity(0)))
    symmetric = chosen.memory is Memory.SYMMETRIC
    backend = NativeBackend(cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s)
    measured = False
    try:
        for n in chosen.ranks:
            shared = sharing([cores[rank % len(cores)] for rank in range(n)])
            names = shared_core_names(chosen.collective, shared, zero_copy=symmetric)
            for size in chosen.sizes if names else ():
                problem = problem_of(chosen.collective, n, size, chosen.memory)
                own = backend.default(problem)
                configs = configs_of(replace(own, segment_bytes=chosen.segment or own.segment_bytes), names)
                words = measure(backend, problem, configs, chosen.rounds)
                print(f"{n} ranks {format_bytes(size):>8}  {configs[0]}: {', '.join(words)}", flush=True)
                measured = True
    finally:
        backend.close()
    if not measured:
        print(f"no schedules for {chosen.collective.value}: ranks share no cores of the {len(cores)} here")
        sys.exit(NOT_HERE)


if __name__ == "__main__":
    main()
