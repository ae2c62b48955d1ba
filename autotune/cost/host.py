"""The price of a collective of the native executor on one host: what its ranks read and write, and where it lies.

In:  cores, caches, parameters; problems and configs. Out: prices. May not touch: links (that is ``network.py``),
clocks, the native module. numpy only.

Every byte that a rank reads or writes has a price by where it is found: in its core's L2, in the L3 that all cores
share, or in memory; in the outbox of a rank on the same core or on another one. A superstep ends when the slowest core
has done the work of all its ranks; a core with several ranks switches between them in every wave. Further slices cost
what keeps the busiest core busy. The price is a trial's: short calls follow each other without a pause.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..kernels.schedules.registry import names
from ..measure.timing import SINGLE_CALL_US
from ..types import Collective, Config, Problem
from . import work
from .cut import Cut, cut
from .fabric import FloatArray
from .parameters import HostParameters
from .price import Price, check_config
from .work import Work, work_of

STREAM_FROM_BYTES = 16 << 20
"""From this size on outputs are written past the caches (kernels/knobs.py)."""

_AT = {name: number for number, name in enumerate(HostParameters.names())}
_BUFFER_OCTAVES = 2.0  # a cache stops holding a buffer over so many doublings of its size, its own size in the middle
_OUTBOX_OCTAVES = 3.0
_L2_REACH = 2  # inputs and outputs up to so many L2s still are half in reach: what is read first was written first
_ROTATION_BYTES = 256 << 10  # short calls go round buffers of so much together (backends/worker.py)
_ROTATED = 8

Places = tuple[float, float, float]
"""Shares of some bytes that an L2, the L3 and only memory hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostModel:
    """A ``CostModel`` of ranks that share memory; rank r is pinned to core r mod n_cores.

    Args:
        l2_bytes: of one core.
        l3_bytes: that all cores share.
        staging_bytes: as AUTOTUNE_STAGING.
    """

    n_ranks: int
    n_cores: int
    l2_bytes: int
    l3_bytes: int
    staging_bytes: int
    parameters: HostParameters = field(default_factory=HostParameters)

    @property
    def ranks_per_core(self) -> int:
        """Of the fullest core."""
        return -(-self.n_ranks // self.n_cores)

    def algorithms(self, collective: Collective) -> tuple[str, ...]:
        """The legal ones; hierarchical needs groups, and one host has none."""
        return names(collective, self.n_ranks)

    def slices(self, problem: Problem, config: Config) -> int:
        """Into how many slices the executor cuts the message."""
        return self._cut(problem, config, self._work(problem, config)).slices

    def price(self, problem: Problem, config: Config) -> Price:
        """What one call takes.

        Raises:
            UsageError: the algorithm is not legal here, or the config asks for what nothing is known of.
        """
        values = self.parameters.vector()
        fill, further, slices = self._parts(problem, config, values)
        return Price(fill_us=float(fill @ values), slice_us=float(further @ values), slices=slices)

    def terms(self, problem: Problem, config: Config, values: FloatArray) -> FloatArray:
        """How often each parameter is paid on the critical path that is the critical one for these values."""
        fill, further, slices = self._parts(problem, config, values)
        return fill + (slices - 1) * further

    def _parts(self, problem: Problem, config: Config, values: FloatArray) -> tuple[FloatArray, FloatArray, int]:
        """(of the first slice, of each further one, slices)."""
        check_config(config)
        done = self._work(problem, config)
        cuts = self._cut(problem, config, done)
        weights = self._weights(problem, cuts, done)
        by_rank = done.counts @ weights  # [level, rank, column] x [column, parameter]
        cores = range(min(self.n_cores, self.n_ranks))
        by_core = np.stack([by_rank[:, core :: self.n_cores].sum(axis=1) for core in cores], axis=1)
        cost = by_core @ values
        fill = by_core[np.arange(len(cost)), cost.argmax(axis=1)].sum(axis=0)
        further = by_core[:, cost.sum(axis=0).argmax()].sum(axis=0)
        fill = fill + (done.shape.levels - 1) * self._wave()
        each = further + cuts.spacing * self._wave()
        # Trials of short calls are many back to back, which run into each other where no rank has to wait for all.
        if not done.synchronising and float((fill + (cuts.slices - 1) * each) @ values) < SINGLE_CALL_US:
            fill = further + (done.shape.levels - 1) * self._wave()
        return fill, each, cuts.slices

    def _wave(self) -> FloatArray:
        """What a wave costs beside its bytes: cores with several ranks switch between them."""
        per_core = self.ranks_per_core
        terms = np.zeros(len(_AT))
        if per_core > 1:
            terms[_AT["switch_us"]] = per_core
            terms[_AT["crowd_us"]] = per_core * (per_core - 1)
        return terms

    def _work(self, problem: Problem, config: Config) -> Work:
        return work_of(problem.key.collective, config.algorithm, self.n_ranks, self.n_cores)

    def _cut(self, problem: Problem, config: Config, done: Work) -> Cut:
        if problem.key.n_ranks != self.n_ranks:
            raise ValueError(f"a problem of {problem.key.n_ranks} ranks on a host with {self.n_ranks}")
        itemsize = problem.timed_dtype.itemsize
        parts = self.n_ranks if problem.key.collective.splits_by_rank else 1
        segment_bytes = config.segment_bytes or max(problem.message_bytes, 1)
        return cut(done.shape, problem.message_bytes // itemsize // parts, itemsize, segment_bytes, self.staging_bytes)

    def _weights(self, problem: Problem, cuts: Cut, done: Work) -> FloatArray:
        """[column of work, parameter]: how often a parameter is paid for one block of one slice."""
        found = np.zeros((work.MESSAGES + 1, len(_AT)))
        kilobytes = cuts.share_bytes / 1e3
        buffers, outboxes = self._places_of_buffers(problem), self._places_of_outboxes(problem, cuts, done)
        # Two ranks that swap their outboxes write to lines that they have, and each comes to its reader once, from the
        # other's cache by way of the shared one.
        swaps, (near, farther, gone) = done.shape.exchanges, outboxes
        taken = (0.0, near + farther, gone) if swaps else outboxes
        for column, name, places in (
            (work.INPUT, "read", buffers),
            (work.OWN, "read", outboxes),  # written as long ago as the messages that came with it
            (work.AGAIN, "read", (1.0, 0.0, 0.0)),
            (work.NEAR, "near", outboxes),
            (work.FAR, "far", taken),
            (work.OUTBOX, "output" if swaps else "outbox", outboxes),
            (work.OUTPUT, "output", buffers),
        ):
            for place, share in zip(("cached", "shared", "memory"), places, strict=True):
                found[column, _AT[f"{name}_{place}"]] = share * kilobytes
        if problem.message_bytes >= STREAM_FROM_BYTES:
            found[work.OUTPUT] = 0.0
            found[work.OUTPUT, _AT["output_streamed"]] = kilobytes
        found[work.MESSAGES, _AT["message_us"]] = 1.0
        found[work.MESSAGES, _AT["bulk_us"]] = float(cuts.bulk)
        return found

    def _places_of_buffers(self, problem: Problem) -> Places:
        """Of the users' buffers, which were just written when a call begins."""
        touched = self._touched_buffers(problem)
        past_l2 = _beyond(touched, _L2_REACH * self.l2_bytes, _BUFFER_OCTAVES)
        past_l3 = _beyond(touched * min(self.n_cores, self.n_ranks), self.l3_bytes, _BUFFER_OCTAVES)
        return _shares(past_l2, past_l3)

    def _touched_buffers(self, problem: Problem) -> float:
        """Bytes of input and output that the ranks of a core go round."""
        touched = sum(_buffers(problem)) * self.ranks_per_core
        if touched < _ROTATION_BYTES:
            touched = min(_ROTATED * touched, float(_ROTATION_BYTES))
        return touched

    def _places_of_outboxes(self, problem: Problem, cuts: Cut, done: Work) -> Places:
        """Of the messages that a core's ranks write, and those that they read.

        What counts is how much a core touches until it comes to the same line of an outbox again: its own messages,
        those of its peers, and its buffers. A slot that is used again in the same call was touched a few waves ago;
        else some calls ago, since calls go round the outbox, or swap it.
        """
        of_slice = done.counts.sum(axis=0).mean(axis=0) * cuts.share_bytes * self.ranks_per_core  # of the mean core
        written, read = of_slice[work.OUTBOX], of_slice[work.NEAR] + of_slice[work.FAR]
        buffers = of_slice[work.INPUT] + of_slice[work.OUTPUT]
        in_call = (written + read + buffers) * cuts.in_flight * cuts.window / done.shape.levels
        of_call = min((written + read) * cuts.slices, 2.0 * cuts.outbox_bytes * self.ranks_per_core)
        since = cuts.calls * of_call + self._touched_buffers(problem)
        past_l2 = cuts.reused * _beyond(in_call, self.l2_bytes, _OUTBOX_OCTAVES)
        past_l2 += (1 - cuts.reused) * _beyond(since, self.l2_bytes, _OUTBOX_OCTAVES)
        return _shares(past_l2, _beyond(2 * cuts.outbox_bytes * self.n_ranks, self.l3_bytes, _BUFFER_OCTAVES))


def _shares(past_l2: float, past_l3: float) -> Places:
    gone = min(past_l2, past_l3)
    return 1 - past_l2, past_l2 - gone, gone


def _buffers(problem: Problem) -> tuple[float, float]:
    """(input, output) bytes of a rank, the mean of all ranks where the root has more."""
    whole, part = float(problem.message_bytes), problem.message_bytes / problem.key.n_ranks
    match problem.key.collective:
        case Collective.ALL_REDUCE | Collective.ALL_TO_ALL:
            return whole, whole
        case Collective.ALL_GATHER | Collective.BROADCAST:
            return part, whole
        case Collective.REDUCE_SCATTER | Collective.REDUCE:
            return whole, part
        case Collective.SCATTER | Collective.GATHER:
            return part, part


def _beyond(n_bytes: float, cache_bytes: int, octaves: float) -> float:
    """0 where a cache holds so many bytes, 1 where it holds none of them."""
    return min(1.0, max(0.0, math.log2(max(n_bytes, 1.0) / cache_bytes) / octaves + 0.5))
