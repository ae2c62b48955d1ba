"""The native backend: trials of our own kernels on this host's cores.

In:  problems and configs. Out: outcomes, from ranks that run in processes of their own and are replaced when one hangs,
dies or breaks its group. May not touch: the store, tables on disk.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..errors import AutotuneError
from ..kernels import distinct_names, slices
from ..kernels.schedules.registry import names
from ..measure import Failure, Outcome, Timing
from ..space import native_candidates
from ..table import native_defaults
from ..types import Collective, Config, Problem, ReduceOp, SampleKind, TrialState, WrongElement
from .launch import Json, PoolFailed, RankPool

REFERENCE = Config(algorithm="ring", segment_bytes=64 << 10)
"""The fixed config that gains are reported against besides the default's: what people copy from guides."""

_WATCHDOG_S = 60.0  # a round of the largest messages takes a few seconds; its first touch of pages more
_OPS = {"sum": ReduceOp.SUM, "minmax": ReduceOp.MAX, "prod": ReduceOp.PROD}


class NativeBackend:
    """Implements `measure.Backend`.

    Args:
        cores: the cores that ranks are pinned to, in order; more ranks than cores share them.
        staging_bytes: as AUTOTUNE_STAGING.
        timeout_s: the longest wait inside a collective before the trial is a TIMEOUT.
    """

    name = "native"

    def __init__(self, cores: Sequence[int], *, staging_bytes: int, timeout_s: float) -> None:
        self._cores = tuple(cores)
        self._staging_bytes = staging_bytes
        self._timeout_s = timeout_s
        self._pool: RankPool | None = None
        self._defaults = native_defaults()

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """Every legal algorithm with every segment size that changes how the message is cut."""
        default, reference = self.default(problem), self.reference(problem)

        def distinct(collective: Collective, n_ranks: int) -> tuple[str, ...]:
            return distinct_names(collective, n_ranks, [default.algorithm])

        def cut(config: Config) -> int:
            return _slices(problem, config.algorithm, config.segment_bytes or 0, self._staging_bytes)

        return native_candidates(problem, names=distinct, slices=cut, preferred=[c for c in (default, reference) if c])

    def default(self, problem: Problem) -> Config:
        """The shipped rule's config."""
        return self._defaults.lookup(problem.key.collective, problem.key.n_ranks, problem.message_bytes)

    def reference(self, problem: Problem) -> Config | None:
        """`REFERENCE`, where the collective has a ring."""
        legal = names(problem.key.collective, problem.key.n_ranks)
        return REFERENCE if REFERENCE.algorithm in legal else None

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        """See `measure.Backend`. A failed round is repeated one config at a time, to find which one it was."""
        try:
            return self._ask(problem, configs, kind, batch)
        except PoolFailed as failure:
            self._pool = None
            if len(configs) == 1:
                return [Failure(state=failure.state, message=failure.message)]
            return [self.measure_round(problem, [config], kind=kind, batch=batch)[0] for config in configs]

    def _ask(self, problem: Problem, configs: Sequence[Config], kind: SampleKind, batch: int) -> list[Outcome]:
        key = problem.key
        dtype = problem.timed_dtype
        parts = key.n_ranks if key.collective.splits_by_rank else 1
        listed: list[Json] = [
            {
                "algorithm": config.algorithm,
                "segment_bytes": config.segment_bytes,
                "codec": config.codec,
                "knobs": dict(config.knobs),
            }
            for config in configs
        ]
        request: dict[str, Json] = {
            "do": "round",
            "collective": key.collective.value,
            "dtype": dtype.value,
            "op": _OPS[key.op_class.value if key.op_class else "sum"].value,
            "count": problem.message_bytes // dtype.itemsize // parts,
            "kind": kind.value,
            "batch": batch,
            "configs": listed,
        }
        answers = self._pool_of(key.n_ranks).ask(request)
        outcomes = answers[0]["outcomes"]
        assert isinstance(outcomes, list)
        return [_outcome(outcome) for outcome in outcomes]

    def _pool_of(self, n_ranks: int) -> RankPool:
        if self._pool is not None and self._pool.n_ranks != n_ranks:
            self.close()
        if self._pool is None:
            self._pool = RankPool(
                n_ranks,
                self._cores,
                staging_bytes=self._staging_bytes,
                timeout_s=self._timeout_s,
                watchdog_s=_WATCHDOG_S + self._timeout_s,
            )
        return self._pool

    def close(self) -> None:
        """End the ranks."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


@functools.lru_cache(maxsize=4096)
def _slices(problem: Problem, algorithm: str, segment_bytes: int, staging_bytes: int) -> int:
    key = problem.key
    return slices(
        key.collective, algorithm, key.n_ranks, problem.message_bytes, problem.timed_dtype, segment_bytes, staging_bytes
    )


def _outcome(answer: Json) -> Outcome:
    assert isinstance(answer, dict)
    if "time_us" in answer:
        return Timing(time_us=float(str(answer["time_us"])), batch_calls=int(str(answer["calls"])))
    wrong = answer["wrong"]
    element = None
    if isinstance(wrong, dict):
        element = WrongElement(
            rank=int(str(wrong["rank"])),
            index=int(str(wrong["index"])),
            got=str(wrong["got"]),
            expected=str(wrong["expected"]),
        )
    return Failure(state=TrialState(answer["state"]), message=str(answer["message"]), wrong=element)


def pair_figures(core_a: int, core_b: int, *, staging_bytes: int, timeout_s: float) -> tuple[float, float]:
    """(latency_us, bandwidth_gb_per_s) of messages between ranks pinned to two cores, through the native executor.

    Latency is that of 8 bytes, bandwidth that of 4 MiB, copied in and copied out as send and recv do.

    Raises:
        AutotuneError: the ranks did not start or did not answer.
    """
    large = 4 << 20
    with RankPool(
        2, (core_a, core_b), staging_bytes=staging_bytes, timeout_s=timeout_s, watchdog_s=_WATCHDOG_S
    ) as pool:
        small_us = pool.ask({"do": "pingpong", "bytes": 8, "turns": 2000})[0]["us"]
        large_us = pool.ask({"do": "pingpong", "bytes": large, "turns": 4})[0]["us"]
    latency_us, time_us = float(str(small_us)), float(str(large_us))
    if latency_us <= 0 or time_us <= 0:
        raise AutotuneError("the host's clock did not advance", remedy="check the host's clock source")
    return latency_us, large / (time_us * 1e3)
