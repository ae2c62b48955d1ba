"""The sweeps: which cells, and which configs each of them is measured with. Written to ``configs/`` before any search.

In:  names of sweeps. Out: problems with their configs, as text files that are part of the repository.
A line of such a file is one config of one cell; ``record`` measures exactly these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.backends.native import REFERENCE as NATIVE_REFERENCE
from autotune.backends.torch_dist import REFERENCE as TORCH_REFERENCE
from autotune.backends.torch_dist import SEGMENTED_FROM_BYTES
from autotune.kernels import distinct_names, slices
from autotune.kernels.portable_compiler import plan_of
from autotune.kernels.portable_plan import cut
from autotune.plan import parse_collective
from autotune.space import native_candidates
from autotune.table import shipped_table
from autotune.types import Collective, Config, DType, KnobValue, OpClass, Problem, RuleKey, round_up_message
from autotune.units import format_bytes, parse_bytes

CONFIGS = Path(__file__).parent / "configs"
STAGING_BYTES = 8 << 20

_K, _M = 1 << 10, 1 << 20
_DEEP = (("slices_in_flight", 4),)
_STREAMED = (("outbox", "streamed"),)

Cells = dict[Problem, tuple[Config, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Problems of one backend, each with its configs.

    Args:
        knobs: that every config is tried with as well, where they make a difference.
        n_hosts: that share the ranks evenly: this machine, or network namespaces on it (benchmarks/hosts).
        rate_mbit: of each host's interface, where there are several.
        rounds: of a half. 52 are nine to race and 43 to confirm, which reach to the fourth look of a decision, or 26 to
            choose the oracle and 26 to compare with it. Recordings of before have 24, and 40 of gloo.
    """

    name: str
    backend: str
    collectives: tuple[Collective, ...]
    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    segments: tuple[int, ...]
    knobs: tuple[tuple[tuple[str, KnobValue], ...], ...] = ()
    n_hosts: int = 1
    rate_mbit: int | None = None
    rounds: int = 52

    def problems(self) -> Iterator[Problem]:
        for n_ranks in self.ranks:
            for collective in self.collectives:
                for size in self.sizes:
                    yield problem_of(self.backend, collective, n_ranks, size, n_hosts=self.n_hosts)

    def cells(self) -> Cells:
        """Every cell with its configs, default and reference among them, no two of which do the same thing."""
        make: Callable[[Problem], Iterable[Config]] = self._native if self.backend == "native" else self._torch
        return {problem: tuple(dict.fromkeys(make(problem))) for problem in self.problems()}

    def _native(self, problem: Problem) -> Iterator[Config]:
        default = default_of(problem)

        def cuts(config: Config) -> int:
            return _cuts(problem, config)

        plain = native_candidates(
            problem,
            names=lambda collective, n_ranks: distinct_names(collective, n_ranks, [default.algorithm]),
            slices=cuts,
            preferred=(default, NATIVE_REFERENCE),
            segments=self.segments,
        )
        yield from (default, NATIVE_REFERENCE, *plain)
        for knobs in self.knobs:
            for config in plain:
                if knobs == _STREAMED or cuts(config) > 2:
                    yield Config(algorithm=config.algorithm, segment_bytes=config.segment_bytes, knobs=knobs)

    def _torch(self, problem: Problem) -> Iterator[Config]:
        key = problem.key
        yield default_of(problem)
        count = problem.message_bytes // problem.timed_dtype.itemsize
        if key.collective.splits_by_rank:
            count //= key.n_ranks
        for algorithm in distinct_names(key.collective, key.n_ranks, [TORCH_REFERENCE.algorithm]):
            plan = plan_of(key.collective, algorithm, key.n_ranks, 0, 0, None, sliced=False)
            whole = cut(plan, count, problem.timed_dtype.itemsize, None)
            segments: dict[int, int | None] = {whole.slices: None}
            if plan.n_steps and problem.message_bytes > SEGMENTED_FROM_BYTES:
                segments |= {cut(plan, count, problem.timed_dtype.itemsize, s).slices: s for s in self.segments}
            yield from (Config(algorithm=algorithm, segment_bytes=segment) for segment in segments.values())


SWEEPS = (
    Sweep(
        name="native_all_reduce",
        backend="native",
        collectives=(Collective.ALL_REDUCE,),
        ranks=(2, 4),
        sizes=(_K, 16 * _K, 128 * _K, 256 * _K, 512 * _K, _M, 2 * _M, 4 * _M),
        segments=(16 * _K, 64 * _K, 256 * _K, _M),
    ),
    Sweep(
        name="native_gather_scatter",
        backend="native",
        collectives=(Collective.ALL_GATHER, Collective.REDUCE_SCATTER),
        ranks=(2, 4),
        sizes=(16 * _K, 128 * _K, 512 * _K, 2 * _M),
        segments=(16 * _K, 64 * _K, 256 * _K, _M),
        knobs=(_STREAMED,),
    ),
    Sweep(
        name="native_all_reduce_100",
        backend="native",
        collectives=(Collective.ALL_REDUCE,),
        ranks=(4,),
        sizes=(512 * _K, _M, 2 * _M, 4 * _M),
        segments=(16 * _K, 64 * _K, 256 * _K, _M),
        knobs=(_STREAMED, _DEEP),
    ),
    Sweep(
        name="torch_gloo",
        backend="torch",
        collectives=(Collective.ALL_REDUCE, Collective.ALL_GATHER),
        ranks=(2, 4),
        sizes=(4 * _K, 64 * _K, _M, 4 * _M),
        segments=(256 * _K, 512 * _K, _M, 2 * _M),
    ),
    Sweep(
        name="testbed",
        backend="native",
        collectives=(Collective.ALL_REDUCE, Collective.ALL_GATHER),
        ranks=(4,),
        sizes=(4 * _K, 64 * _K, 256 * _K, 512 * _K, _M),
        segments=(16 * _K, 64 * _K, 256 * _K, _M),
        n_hosts=4,
        rate_mbit=1000,
    ),
)


def problem_of(backend: str, collective: Collective, n_ranks: int, size: int, *, n_hosts: int) -> Problem:
    """A cell of float32 sums, or of bytes; each host has as many ranks as the others."""
    dtype = DType.FLOAT32 if collective.computes else None
    key = RuleKey(
        backend=backend,
        collective=collective,
        dtype=dtype,
        op_class=OpClass.SUM if dtype else None,
        n_ranks=n_ranks,
        placement=(n_ranks // n_hosts,) * n_hosts,
    )
    return Problem(key=key, message_bytes=round_up_message(collective, size, n_ranks, dtype.itemsize if dtype else 1))


def default_of(problem: Problem, l2_bytes: int | None = None) -> Config:
    """The backend's shipped default, on a host with such second-level caches."""
    return shipped_table(problem.key.backend, l2_bytes=l2_bytes).defaults.lookup(problem.key, problem.message_bytes)


def default_among(problem: Problem, configs: Sequence[Config], *, l2_bytes: int | None = None) -> Config:
    """The default as it was listed: by another name where the shipped rule has come to say the same otherwise.

    A list is written before anything is measured and stays as it is. A segment of 256 KiB and one of 1 MiB are the same
    for a block of 64 KiB.

    Raises:
        ValueError: what the shipped rule says today was not listed.
    """
    default = default_of(problem, l2_bytes)
    if default in configs:
        return default
    same = [c for c in configs if replace(c, segment_bytes=None) == replace(default, segment_bytes=None)]
    for config in same:
        if problem.key.backend == "native" and _cuts(problem, config) == _cuts(problem, default):
            return config
    raise ValueError(f"{problem}: the default {default} is not in the list")


def _cuts(problem: Problem, config: Config) -> int:
    return slices(
        problem.key.collective,
        config.algorithm,
        problem.key.n_ranks,
        problem.message_bytes,
        problem.timed_dtype,
        config.segment_bytes or 0,
        STAGING_BYTES,
    )


def reference_of(problem: Problem) -> Config:
    """The fixed ring."""
    return NATIVE_REFERENCE if problem.key.backend == "native" else TORCH_REFERENCE


def write_list(sweep: Sweep, folder: Path = CONFIGS) -> Path:
    """The list of a sweep as a text file."""
    path = folder / f"{sweep.name}.txt"
    lines = [f"# backend {sweep.backend}; collective, ranks, message size, config"]
    for problem, configs in sweep.cells().items():
        size = format_bytes(problem.message_bytes)
        lines += [f"{problem.key.collective.value} {problem.key.n_ranks} {size} {config}" for config in configs]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def read_list(sweep: Sweep, folder: Path = CONFIGS) -> Cells:
    """The cells of the sweep's file, with their configs in its order."""
    found: dict[Problem, list[Config]] = {}
    for line in (folder / f"{sweep.name}.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        collective, ranks, size, config = line.split()
        problem = problem_of(
            sweep.backend, parse_collective(collective), int(ranks), parse_bytes(size), n_hosts=sweep.n_hosts
        )
        found.setdefault(problem, []).append(config_of(config))
    return {problem: tuple(configs) for problem, configs in found.items()}


def config_of(text: str) -> Config:
    """``"direct/64KiB/outbox=streamed"`` -> Config, as `str` writes it."""
    algorithm, *parts = text.split("/")
    knobs: list[tuple[str, KnobValue]] = []
    segment = None
    for part in parts:
        name, is_knob, value = part.partition("=")
        if is_knob:
            knobs.append((name, int(value) if value.isdigit() else value))
        else:
            segment = parse_bytes(part)
    return Config(algorithm=algorithm, segment_bytes=segment, knobs=tuple(sorted(knobs)))
