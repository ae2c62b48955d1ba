"""How the cost of pricing grows with the ranks: on a 2:1 oversubscribed fat tree of 8-NPU hosts, 20 sizes.

    python benchmarks/pricing_scale.py

Prints seconds of processor time for each algorithm from 64 to 16,384 ranks (2,048 hosts), its schedule included, and
the memory of the process; exits non-zero if the largest takes 10 s or 2 GiB together. Algorithms with a message for
each pair of ranks stop at 1,024 ranks. All of them carry out an all_reduce, but for pairwise, which is an all_to_all.
"""

from __future__ import annotations

import resource
import sys
import time

from autotune.cost import machine_model
from autotune.topology.machines import description
from autotune.types import Collective, Config, DType, OpClass, Problem, RuleKey

MACHINE = "atlas-800t-a2"  # 8 NPUs a host; its network is a fat tree, 32 hosts a leaf, 2:1 oversubscribed
RANKS = (64, 256, 1024, 4096, 16384)
CLOSED = ("ring", "tree", "double_tree", "recursive_halving_doubling", "nhr", "bruck", "hierarchical")
DENSE = ("direct", "flat", "pairwise")
SIZES = tuple(1 << k for k in range(10, 30))
LIMIT_S, LIMIT_MIB = 10.0, 2048


def seconds(algorithm: str, n_ranks: int) -> float:
    """Processor time to build the schedule and price it for every size."""
    start = time.process_time()
    model = machine_model(description(MACHINE), n_ranks // 8)
    collective = Collective.ALL_TO_ALL if algorithm == "pairwise" else Collective.ALL_REDUCE
    for size in SIZES:
        key = RuleKey(
            backend="native",
            collective=collective,
            dtype=DType.FLOAT32 if collective.computes else None,
            op_class=OpClass.SUM if collective.computes else None,
            n_ranks=n_ranks,
            placement=(8,) * (n_ranks // 8),
        )
        problem = Problem(key=key, message_bytes=max(size, 4 * n_ranks))
        model.price(problem, Config(algorithm=algorithm, segment_bytes=1 << 20))
    return time.process_time() - start


def main() -> None:
    print(
        f"seconds for {len(SIZES)} sizes; us a rank at the right\n{'algorithm':28}" + "".join(f"{n:>9}" for n in RANKS)
    )
    largest_s = 0.0
    for algorithm in CLOSED:
        found = [seconds(algorithm, n) for n in RANKS]
        largest_s += found[-1]
        per_rank = "".join(f"{1e6 * s / n:9.1f}" for s, n in zip(found, RANKS, strict=True))
        print(f"{algorithm:28}" + "".join(f"{s:9.3f}" for s in found) + "   " + per_rank)
    most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for algorithm in DENSE:
        print(f"{algorithm:28}" + "".join(f"{seconds(algorithm, n):9.3f}" for n in RANKS if n <= 1024))
    print(
        f"{RANKS[-1]} ranks, {len(CLOSED)} algorithms: {largest_s:.1f} s (limit {LIMIT_S:.0f}),"
        f" {most_mib:.0f} MiB (limit {LIMIT_MIB})"
    )
    sys.exit(largest_s > LIMIT_S or most_mib > LIMIT_MIB)


if __name__ == "__main__":
    main()
