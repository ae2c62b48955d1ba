"""The torch backend: trials of torch.distributed's own collectives and of our schedules over it, on any of its devices.

In:  problems and a device. Out: their candidates and defaults; ranks for `PooledBackend`, which measures.
May not touch: torch (only the ranks import it, torch_worker.py), the store, tables on disk.

The default is what runs without us: the library's own collective, called ``library``; gloo's on CPUs, HCCL's on NPUs,
NCCL's on GPUs. Devices other than CPUs follow torch's documentation and were not run on hardware.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from ..errors import BackendUnavailable, UsageError
from ..kernels import distinct_names, host_numbers
from ..kernels.codecs import Codec
from ..kernels.portable_compiler import plan_of
from ..kernels.portable_plan import cut
from ..kernels.programs import layout_of
from ..kernels.schedules.registry import build, names
from ..kernels.schedules.wire import codec_legality
from ..space import CODECS
from ..table import shipped_table
from ..types import Config, Layout, Memory, OpClass, Problem, ReduceOp
from .launch import Ranks, StartRanks, start_here
from .pooled import WATCHDOG_S, PooledBackend
from .rank_process import Json, PoolFailed

REFERENCE = Config(algorithm="ring")
"""The fixed schedule that gains are reported against besides the default's."""

SEGMENTS = (256 << 10, 1 << 20, 4 << 20)
"""Segment sizes of the grid, in bytes; smaller messages cost more than they gain (kernels/portable.py)."""

SEGMENTED_FROM_BYTES = 512 << 10
"""Messages of up to this travel whole."""

_WORKER = "autotune.backends.torch_worker"
_SEGMENT_BYTES = 1 << 16  # of the shared memory over which ranks agree on times; no trial goes through it


class TorchBackend(PooledBackend):
    """Implements `measure.Backend`.

    Args:
        cores: for the ranks' bookkeeping; torch's own threads run where the system puts them, as under torchrun.
        timeout_s: the longest wait inside a collective.
        device: where tensors live: ``cpu``, ``npu``, ``cuda`` or another that torch knows, or ``auto``; rank r of a
            host takes device r.
        data: what problems with an error budget are measured on (`data.data_word`).
        start_ranks: starts the ranks.

    Raises:
        BackendUnavailable: torch is not installed.
    """

    name = "torch"

    def __init__(
        self,
        cores: Sequence[int],
        *,
        timeout_s: float,
        device: str = "cpu",
        data: str = "normal",
        start_ranks: StartRanks = start_here,
    ) -> None:
        super().__init__()
        if importlib.util.find_spec("torch") is None:
            raise BackendUnavailable(
                "the backend torch needs PyTorch, which is not installed",
                remedy="pip install torch, or use --backend native",
            )
        self._cores = tuple(cores)
        self._timeout_s = timeout_s
        self._device = device
        self._data = data
        self._start_ranks = start_ranks
        self._defaults = shipped_table(self.name).defaults

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """The library's collective, and every schedule, whole and with every segment size that cuts it differently.

        With an error budget, those that all ranks can carry out alike with codecs besides, with each of `CODECS`.
        """
        key = problem.key
        found = [self.default(problem)]
        parts = key.n_ranks if key.collective.splits_by_rank else 1
        item = problem.timed_dtype.itemsize
        count = problem.message_bytes // item // parts
        hosts = host_numbers(key.placement)
        layout = layout_of(key.n_ranks, 0, hosts)
        for algorithm in distinct_names(key.collective, key.n_ranks, [REFERENCE.algorithm], hosts):
            plan = plan_of(key.collective, algorithm, key.n_ranks, 0, 0, layout, sliced=False)
            whole = cut(plan, count, item, None)
            segments: dict[int, int | None] = {whole.slices: None}
            if plan.n_steps and plan.largest_blocks * whole.pitch(0) * item > SEGMENTED_FROM_BYTES:
                segments |= {cut(plan, count, item, s).slices: s for s in SEGMENTS}
            found += [
                Config(algorithm=algorithm, segment_bytes=segment, codec=codec)
                for codec in ("none", *_codecs(problem, algorithm, layout))
                for segment in segments.values()
            ]
        return tuple(found)

    def default(self, problem: Problem) -> Config:
        """The library's own collective.

        Raises:
            UsageError: the problem's buffers are in symmetric memory, which torch.distributed does not have.
        """
        key = problem.key
        if key.memory is not Memory.PRIVATE:
            raise UsageError(
                f"the backend torch has no {key.memory.value} memory", remedy="leave out --memory, or use private"
            )
        return self._defaults.lookup(key, problem.message_bytes)

    def reference(self, problem: Problem) -> Config | None:
        """`REFERENCE`, where the collective has a ring."""
        return REFERENCE if REFERENCE.algorithm in names(problem.key.collective, problem.key.n_ranks) else None

    def judged_on(self, problem: Problem) -> dict[str, Json]:
        """See `PooledBackend`."""
        budget = problem.key.max_error
        return {} if budget is None else {"max_error": budget, "data": self._data}

    def start(self, placement: tuple[int, ...]) -> Ranks:
        """See `PooledBackend`; the ranks have found each other and their devices.

        Raises:
            BackendUnavailable: they have not.
        """
        pool = self._start_ranks(
            placement,
            self._cores,
            staging_bytes=_SEGMENT_BYTES,
            timeout_s=self._timeout_s,
            watchdog_s=WATCHDOG_S + self._timeout_s,
            module=self.worker(),
        )
        try:
            pool.ask(self.opening())
        except PoolFailed as err:
            raise BackendUnavailable(
                f"the ranks of torch.distributed did not start: {err.message}",
                remedy="check that `python -c 'import torch.distributed'` works here, and --ranks against the devices",
            ) from err
        return pool

    def worker(self) -> str:
        """The ranks' module."""
        return _WORKER

    def opening(self) -> dict[str, Json]:
        """What every rank is asked first."""
        return {"do": "device", "device": self._device}


def _codecs(problem: Problem, algorithm: str, layout: Layout) -> tuple[str, ...]:
    """The codecs that a problem with an error budget tries with an algorithm."""
    key = problem.key
    op = ReduceOp.PROD if key.op_class is OpClass.PROD else ReduceOp.SUM
    if key.max_error is None or Codec.parse("int8").objection(key.collective, problem.timed_dtype, op):
        return ()
    schedule = build(key.collective, algorithm, key.n_ranks, layout)
    return () if key.n_ranks == 1 or codec_legality(key.collective, schedule) else CODECS
