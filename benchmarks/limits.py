"""Collectives where a container gives little: 64 MiB of /dev/shm and a memory limit, or less CPU time than cores.

    python benchmarks/limits.py memory [--ranks 8] [--size 256M]
    python benchmarks/limits.py cpu [--ranks 2,4] [--quota 0.5]

memory: a mount namespace whose /dev/shm has 64 MiB, and a control group that may take the ranks' buffers,
AUTOTUNE_STAGING for each rank and some MiB for their interpreters. Shows that all_reduce of that size is right there,
that it takes no more than AUTOTUNE_STAGING a rank beyond the buffers and nothing of /dev/shm, and that symmetric
memory which does not fit is an error on every rank before a page of it is taken.

cpu: latency of a small all_reduce with and without a quota of so many CPUs' time, in turns. A group that has used up
its quota stands still to the end of the period (100 ms), so the mean grows by at least what the quota takes away; the
median of batches should not. It has collapsed if it is beyond a scheduler's tick.

Needs root and control groups (version 1 or 2) that may be made below this process's own. Exit code 0: all is as said;
1: it is not; 77: not possible here, and why.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from autotune.errors import AutotuneError, UsageError
from autotune.kernels import Communicator, Shape, _native, create_segment
from autotune.settings import read
from autotune.topology.memory_left import memory_left
from autotune.topology.probes.cgroup import limit_directories
from autotune.types import Collective, Config, DType, ReduceOp
from autotune.units import format_bytes, parse_bytes, parse_ranks

NOT_HERE = 77
SHM_BYTES = 64 << 20
INTERPRETER_BYTES = 48 << 20  # of a forked rank, generously
SLACK_BYTES = 32 << 20  # page tables, the kernel's own
TICK_US = 4000.0
PERIOD_US = 100_000
RUN_S, BATCH = 1.0, 50
ALGORITHMS = ("direct", "ring")
MIB = 1 << 20


class NotHere(Exception):
    """What this machine does not let us try."""


class Group:
    """A control group below this process's own, so that every limit above it stays in force. A context manager."""

    def __init__(self, limit_file_v1: str, limit_file_v2: str) -> None:
        groups, mounts = (Path("/proc/self", name).read_text(encoding="utf-8") for name in ("cgroup", "mountinfo"))
        for directory, names in limit_directories(groups, mounts):
            self._v1 = limit_file_v1 in names
            if not self._v1 and limit_file_v2 not in names:
                continue
            path = Path(directory, f"autotune-limits-{os.getpid()}")
            with contextlib.suppress(OSError):
                path.mkdir()
                if (path / (limit_file_v1 if self._v1 else limit_file_v2)).exists():
                    self.path = path
                    return
                path.rmdir()
        raise NotHere(
            f"no control group with {limit_file_v2} or {limit_file_v1} can be made below this process's own: that "
            "needs root, cgroups mounted for writing and the controller enabled for groups below"
        )

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.path.rmdir()

    def set(self, v1: dict[str, int | str], v2: dict[str, int | str]) -> None:
        for name, value in (v1 if self._v1 else v2).items():
            (self.path / name).write_text(str(value), encoding="ascii")

    def figure(self, v1: str, v2: str) -> int:
        """A number from one of its files; behind its last space, if the file has words too."""
        name, _, key = (v1 if self._v1 else v2).partition(":")
        lines = (self.path / name).read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith(key)).split()[-1])

    def enter(self) -> None:
        """Move this process into it."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def shared_bytes() -> int:
    """Shared memory that this process has touched."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.split("RssShmem:")[1].split()[0]) << 10


Answer = dict[str, Any]
Rank = Callable[[Communicator], Answer]


def run_ranks(n: int, group: Group | None, rank_main: Rank) -> list[Answer]:
    """Fork n ranks, each pinned to a core and in the control group; what each of them returned."""
    settings, cores = read(), sorted(os.sched_getaffinity(0))
    fd = create_segment(n, settings.staging_bytes, settings.symmetric_bytes)
    children = []
    for rank in range(n):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _native.die_with_parent()
                if group is not None:
                    group.enter()
                os.sched_setaffinity(0, {cores[rank % len(cores)]})
                with Communicator(
                    fd, rank, n, selector=_no_selector, cores=len(cores), timeout_s=30.0, room_bytes=memory_left
                ) as comm:
                    os.write(theirs, json.dumps(rank_main(comm)).encode())
                code = 0
            except AutotuneError as err:
                print(f"rank {rank}: {err.message}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)
        os.close(theirs)
        children.append((pid, ours))
    os.close(fd)
    answers = []
    for pid, pipe in children:
        with os.fdopen(pipe, "rb") as answer:
            text = answer.read()
        status = os.waitpid(pid, 0)[1]
        if status:
            sys.exit(f"a rank ended with status {status}")
        answers.append(json.loads(text))
    return answers


def _no_selector(*_: object) -> Config:
    raise AssertionError("calls here bring their config")


# ---- memory


def memory(n: int, size_bytes: int) -> bool:
    """Runs in the mount namespace; prints what it found; whether all is as it should be."""
    staging_bytes = n * read().staging_bytes
    limit = n * (size_bytes + INTERPRETER_BYTES) + staging_bytes + SLACK_BYTES
    if (left := memory_left()) is not None and left < limit:
        raise NotHere(f"needs {format_bytes(limit)} of memory, {format_bytes(left)} are left")
    with Group("memory.limit_in_bytes", "memory.max") as group:
        group.set({"memory.limit_in_bytes": limit}, {"memory.max": limit})
        answers = run_ranks(n, group, lambda comm: memory_rank(comm, group, size_bytes, limit))
        kills = group.figure("memory.oom_control:oom_kill ", "memory.events:oom_kill ")
        peak = group.figure("memory.max_usage_in_bytes", "memory.peak")
    refusals = {answer["refused"] for answer in answers}
    staged, touched, of_shm = (max(a[name] for a in answers) for name in ("staged", "touched", "of_shm"))
    print(f"/dev/shm of {format_bytes(_shm().f_blocks * _shm().f_frsize)}, of which the calls use {of_shm} bytes")
    print(f"memory limit {limit // MIB} MiB for {n} ranks with {format_bytes(size_bytes)} each; peak {peak // MIB} MiB")
    print(f"beyond the buffers all_reduce took {staged // MIB} MiB; AUTOTUNE_STAGING allows {staging_bytes // MIB}")
    print(f"too much symmetric memory, {touched} bytes of it touched: {'; '.join(refusals)}")
    return (
        all(answer["right"] and answer["fits"] for answer in answers)
        and len(refusals) == 1
        and "of memory are left" in refusals.pop()
        and of_shm == 0
        and staged <= staging_bytes + SLACK_BYTES
        and touched < MIB
        and kills == 0
    )


def memory_rank(comm: Communicator, group: Group, size_bytes: int, limit: int) -> Answer:
    """A rank's part of `memory`."""
    used = functools.partial(group.figure, "memory.usage_in_bytes", "memory.current")
    array = np.full(size_bytes // 4, 1.0, np.float32)
    comm.barrier()
    before, right = used(), True
    comm.barrier()
    for algorithm in ALGORITHMS:
        array.fill(1.0)
        comm.all_reduce(array, config=Config(algorithm=algorithm, segment_bytes=1 << 20))
        right &= bool(array.min() == array.max() == comm.n_ranks)  # no array of its own
    comm.barrier()
    staged, of_shm = used() - before, (_shm().f_blocks - _shm().f_bfree) * _shm().f_frsize
    refused, before = "", shared_bytes()
    try:
        comm.allocate(2 * limit // comm.n_ranks, "uint8")
    except UsageError as err:
        refused = err.message
    touched = shared_bytes() - before
    fits = comm.allocate(MIB, "uint8").nbytes == MIB
    return {
        "right": right,
        "staged": staged,
        "of_shm": of_shm,
        "refused": refused,
        "touched": touched,
        "fits": fits,
    }


def _shm() -> os.statvfs_result:
    return os.statvfs("/dev/shm")


def in_small_shm(arguments: Sequence[str]) -> int:
    """This command again, where /dev/shm is a new file system of 64 MiB; nothing of it stays."""
    script = f'mount -t tmpfs -o size={SHM_BYTES} tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", sys.executable, __file__]
    try:
        probe = subprocess.run([*command[:-2], "true"], capture_output=True, text=True)
    except FileNotFoundError:
        raise NotHere("unshare is missing") from None
    if probe.returncode:
        raise NotHere(f"no mount namespace can be made: {probe.stderr.strip()}")
    return subprocess.run([*command, *arguments, "--inside"]).returncode


# ---- CPU time


def cpu(n: int, quota: float, rounds: int = 3) -> bool:
    """Prints median and mean with and without the quota; whether the median is below a tick."""
    shape = Shape(Collective.ALL_REDUCE, DType.FLOAT32, ReduceOp.SUM, 0, 2)

    def rank_main(comm: Communicator) -> Answer:
        config = Config(algorithm="flat", segment_bytes=4096)
        call = comm.prepare(shape, config)
        barrier, source, target = comm.barrier_call(), np.ones(2, np.float32), np.empty(2, np.float32)
        times, over, end = [], np.zeros(1, np.float32), time.perf_counter() + RUN_S
        while not over[0]:
            times.append(comm.group.time(call, barrier, [source], [target], BATCH) / BATCH * 1e6)
            over[0] = time.perf_counter() > end
            comm.all_reduce(over, "max", config=config)
        if (target != comm.n_ranks).any():
            raise UsageError("a wrong sum under the quota", remedy="report this")
        return {"times_us": times}

    cores = len(os.sched_getaffinity(0))
    medians: dict[bool, list[float]] = {True: [], False: []}
    means: dict[bool, list[float]] = {True: [], False: []}
    with Group("cpu.cfs_quota_us", "cpu.max") as group:
        period, granted = PERIOD_US, int(quota * PERIOD_US)
        group.set({"cpu.cfs_period_us": period, "cpu.cfs_quota_us": granted}, {"cpu.max": f"{granted} {period}"})
        for _ in range(rounds):
            for limited in (False, True):
                by_rank = run_ranks(n, group if limited else None, rank_main)
                slowest = [max(times) for times in zip(*(rank["times_us"] for rank in by_rank), strict=True)]
                medians[limited].append(median(slowest))
                means[limited].append(sum(slowest) / len(slowest))
        throttled = group.figure("cpu.stat:nr_throttled ", "cpu.stat:nr_throttled ")
    free, held = median(medians[False]), median(medians[True])
    if not throttled:
        raise NotHere("the ranks never used up their quota: other processes leave them too little of the cores")
    print(
        f"{n} ranks, {cores} cores, quota {quota:g} CPUs: all_reduce of 8 B takes {free:.2f} us, with the quota "
        f"{held:.2f} (ratio {held / free:.2f}); mean {median(means[False]):.2f} and {median(means[True]):.2f} "
        f"(ratio {median(means[True]) / median(means[False]):.2f}); {throttled} periods were cut short"
    )
    return held < TICK_US


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("memory", "cpu"))
    parser.add_argument("--ranks", type=parse_ranks, default=None)
    parser.add_argument("--size", type=parse_bytes, default=256 * MIB)
    parser.add_argument("--quota", type=float, default=0.5)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if not 0 < chosen.quota < len(os.sched_getaffinity(0)):
        parser.error("--quota is not above 0 and below the number of cores")
    try:
        if chosen.what == "cpu":
            return int(not all([cpu(n, chosen.quota) for n in chosen.ranks or (2, 4)]))
        if not chosen.inside:
            return in_small_shm(sys.argv[1:] if arguments is None else arguments)
        return int(not all([memory(n, chosen.size) for n in chosen.ranks or (8,)]))
    except NotHere as reason:
        print(f"not possible here: {reason}")
        return NOT_HERE


if __name__ == "__main__":
    sys.exit(main())
