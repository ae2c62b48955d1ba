"""The native backend: trials of our own kernels on this host's cores.

In:  problems. Out: their candidates and defaults; ranks for `PooledBackend`, which measures. May not touch: the store,
tables on disk.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..errors import AutotuneError
from ..kernels import (
    distinct_names,
    host_numbers,
    lossy_names,
    shared_core_names,
    sharing,
    single_copy_fault,
    single_copy_names,
    slices,
    zero_copy_names,
)
from ..kernels.knobs import STREAM_FROM_BYTES
from ..kernels.schedules.registry import names
from ..space import native_candidates
from ..table import native_defaults
from ..topology.second_level import second_level_bytes
from ..types import SHARED_CORES, Collective, Config, Memory, Problem
from .launch import RankPool, Ranks, StartRanks, start_here
from .pooled import WATCHDOG_S, PooledBackend
from .rank_process import Json

REFERENCE = Config(algorithm="ring", segment_bytes=64 << 10)
"""The fixed config that gains are reported against besides the default's: what people copy from guides."""

_UNBOUNDED = 1 << 50


class NativeBackend(PooledBackend):
    """Implements `measure.Backend`.

    Args:
        cores: the cores that ranks are pinned to, in order; more ranks than cores share them.
        staging_bytes: as AUTOTUNE_STAGING.
        timeout_s: the longest wait inside a collective before the trial is a TIMEOUT.
        data: what problems with an error budget are measured on (`data.data_word`).
        start_ranks: starts the ranks.
    """

    name = "native"

    def __init__(
        self,
        cores: Sequence[int],
        *,
        staging_bytes: int,
        timeout_s: float,
        data: str = "normal",
        start_ranks: StartRanks = start_here,
    ) -> None:
        super().__init__()
        self._start_ranks = start_ranks
        self._data = data
        self._cores = tuple(cores)
        self._staging_bytes = staging_bytes
        self._timeout_s = timeout_s
        self._defaults = native_defaults(second_level_bytes())

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """Every legal algorithm with every segment size that changes how the message is cut."""
        default, reference = self.default(problem), self.reference(problem)
        hosts = host_numbers(problem.key.placement)

        def distinct(collective: Collective, n_ranks: int) -> tuple[str, ...]:
            return distinct_names(collective, n_ranks, [default.algorithm], hosts)

        def zero_copy(collective: Collective, n_ranks: int) -> tuple[str, ...]:
            return zero_copy_names(collective, n_ranks, (default.algorithm,))

        def single_copy(collective: Collective, n_ranks: int) -> tuple[str, ...]:
            if len(problem.key.placement) > 1 or single_copy_fault() is not None:
                return ()
            return single_copy_names(collective, n_ranks, (default.algorithm,))

        def streamed(collective: Collective, n_ranks: int) -> tuple[str, ...]:
            size = problem.message_bytes  # of one rank's buffer; caches that hold one may not hold all
            private = problem.key.memory is Memory.PRIVATE and len(problem.key.placement) == 1
            return (default.algorithm,) if private and size < STREAM_FROM_BYTES <= 2 * size * n_ranks else ()

        cores = self._shared_cores(problem)

        def shared(collective: Collective, n_ranks: int) -> tuple[str, ...]:
            return shared_core_names(collective, cores, zero_copy=problem.key.memory is Memory.SYMMETRIC)

        def cut(config: Config) -> int:
            knobs = dict(config.knobs)
            staged = knobs.get("exchange", "staged") == "staged"
            staging_bytes = self._staging_bytes if staged else _UNBOUNDED
            own = cores if SHARED_CORES in knobs else ()
            algorithm = config.tuned_algorithm if own else config.algorithm
            return _slices(problem, algorithm, config.segment_bytes or 0, staging_bytes, own)

        return native_candidates(
            problem,
            names=distinct,
            zero_copy_names=zero_copy,
            single_copy_names=single_copy,
            streamed_names=streamed,
            lossy_names=lambda collective, n_ranks: lossy_names(collective, n_ranks, hosts),
            shared_core_names=shared,
            slices=cut,
            preferred=[c for c in (default, reference) if c],
        )

    def _shared_cores(self, problem: Problem) -> tuple[int, ...]:
        """By rank, the core that it is pinned to, where ranks share some; else ()."""
        if len(problem.key.placement) > 1:
            return ()
        return sharing([self._cores[rank % len(self._cores)] for rank in range(problem.key.n_ranks)])

    def default(self, problem: Problem) -> Config:
        """The shipped rule's config."""
        return self._defaults.lookup(problem.key, problem.message_bytes)

    def reference(self, problem: Problem) -> Config | None:
        """`REFERENCE`, where the collective has a ring."""
        legal = names(problem.key.collective, problem.key.n_ranks)
        return REFERENCE if REFERENCE.algorithm in legal else None

    def judged_on(self, problem: Problem) -> dict[str, Json]:
        """See `PooledBackend`."""
        budget = problem.key.max_error
        return {} if budget is None else {"max_error": budget, "data": self._data}

    def start(self, placement: tuple[int, ...]) -> Ranks:
        """See `PooledBackend`."""
        return self._start_ranks(
            placement,
            self._cores,
            staging_bytes=self._staging_bytes,
            timeout_s=self._timeout_s,
            watchdog_s=WATCHDOG_S + self._timeout_s,
        )


@functools.lru_cache(maxsize=4096)
def _slices(problem: Problem, algorithm: str, segment_bytes: int, staging_bytes: int, cores: tuple[int, ...]) -> int:
    key = problem.key
    return slices(
        key.collective,
        algorithm,
        key.n_ranks,
        problem.message_bytes,
        problem.timed_dtype,
        segment_bytes,
        staging_bytes,
        host_numbers(key.placement),
        cores,
    )


def pair_figures(core_a: int, core_b: int, *, staging_bytes: int, timeout_s: float) -> tuple[float, float]:
    """(latency_us, bandwidth_gb_per_s) of messages between ranks pinned to two cores, through the native executor.

    Latency is that of 8 bytes, bandwidth that of 4 MiB, copied in and copied out as send and recv do.

    Raises:
        AutotuneError: the ranks did not start or did not answer.
    """
    large = 4 << 20
    with RankPool(2, (core_a, core_b), staging_bytes=staging_bytes, timeout_s=timeout_s, watchdog_s=WATCHDOG_S) as pool:
        small_us = pool.ask({"do": "pingpong", "bytes": 8, "turns": 2000})[0]["us"]
        large_us = pool.ask({"do": "pingpong", "bytes": large, "turns": 4})[0]["us"]
    latency_us, time_us = float(str(small_us)), float(str(large_us))
    if latency_us <= 0 or time_us <= 0:
        raise AutotuneError("the host's clock did not advance", remedy="check the host's clock source")
    return latency_us, large / (time_us * 1e3)
