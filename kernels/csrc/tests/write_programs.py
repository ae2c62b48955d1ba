"""Writes the programs of every algorithm for the C++ tests: ``python write_programs.py OUT``, with autotune installed.

One line for each rank of each (collective, algorithm, number of ranks, root, exchange, hosts):
collective number, algorithm, ranks, rank, root, exchange, hosts, and the words of Program.flatten(). Exchanges are
staged, encoded, zero_copy, in_place, which is zero copy too, and single_copy; hosts are 1 for all ranks on one, or such
as 2,1. Algorithms over groups are there on one host, too, for ranks that take turns on two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.kernels.compiler import compile_program
from autotune.kernels.program import Program
from autotune.kernels.programs import layout_of, shared_core_names
from autotune.kernels.schedules.ir import Schedule
from autotune.kernels.schedules.registry import build, names
from autotune.kernels.schedules.wire import codec_legality
from autotune.kernels.zero_copy import NotZeroCopy, compile_single_copy, compile_zero_copy
from autotune.types import Collective

MOST_RANKS = 5
HOSTS = ((1, 1), (2, 1), (1, 1, 1, 1), (3, 2))
"""Ranks of each host, where there are several."""


def lines() -> Iterator[str]:
    """The file, line by line."""
    for n in range(1, MOST_RANKS + 1):
        yield from _lines(n, None, "1")
    for n in range(3, MOST_RANKS + 1):
        cores = tuple(rank % 2 for rank in range(n))
        for number, collective in enumerate(Collective):
            for algorithm in shared_core_names(collective, cores):
                yield from _programs(number, collective, algorithm, n, None, "1", cores)
    for per_host in HOSTS:
        host_of = tuple(host for host, size in enumerate(per_host) for _ in range(size))
        yield from _lines(len(host_of), host_of, ",".join(map(str, per_host)))


def _lines(n: int, host_of: tuple[int, ...] | None, hosts: str) -> Iterator[str]:
    for number, collective in enumerate(Collective):
        for algorithm in names(collective, n, layout_of(n, 0, host_of)):
            yield from _programs(number, collective, algorithm, n, host_of, hosts)


def _programs(
    number: int,
    collective: Collective,
    algorithm: str,
    n: int,
    host_of: tuple[int, ...] | None,
    hosts: str,
    cores: tuple[int, ...] | None = None,
) -> Iterator[str]:
    for root in range(n if collective.has_root else 1):
        layout = layout_of(n, root, cores or host_of)
        schedule = build(collective, algorithm, n, layout)
        for exchange, programs in exchanges(collective, schedule, layout.order, host_of):
            for rank, program in enumerate(programs):
                words = " ".join(map(str, program.flatten()))
                yield f"{number} {algorithm} {n} {rank} {root} {exchange} {hosts} {words}"


def exchanges(
    collective: Collective, schedule: Schedule, order: tuple[int, ...], host_of: tuple[int, ...] | None
) -> Iterator[tuple[str, Sequence[Program]]]:
    """All ranks' programs for every exchange that the schedule can do."""

    def compiled(lossy: bool) -> list[Program]:
        return [
            compile_program(collective, schedule, rank, order, lossy=lossy, host_of=host_of)
            for rank in range(schedule.n)
        ]

    yield "staged", compiled(lossy=False)
    if codec_legality(collective, schedule) is None:
        yield "encoded", compiled(lossy=True)
    if host_of is not None:
        return
    for exchange in ("zero_copy", "in_place"):
        try:
            yield exchange, compile_zero_copy(collective, schedule, order, in_place=exchange == "in_place")
        except NotZeroCopy:
            continue
    try:
        yield "single_copy", compile_single_copy(collective, schedule, order)
    except NotZeroCopy:
        return


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(lines()) + "\n", encoding="ascii")
