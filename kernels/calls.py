"""What is prepared once and used by every call: programs of schedules, and calls of programs.

In:  a collective, sizes, a config. Out: native `Program` and `Call` objects, kept in bounded caches.
May not touch: buffers, other ranks, the table that configs come from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from ..errors import UsageError
from ..types import Collective, Config, DType, KnobValue, ReduceOp
from . import _native
from .compiler import compile_program
from .schedules.ir import Transfer
from .schedules.registry import build, names

COLLECTIVE_NUMBER = {collective: number for number, collective in enumerate(Collective)}
DTYPE_NUMBER = {dtype: number for number, dtype in enumerate(DType)}
OP_NUMBER = {op: number for number, op in enumerate(ReduceOp)}

SLICES_IN_FLIGHT = 4
STREAM_FROM_BYTES = 16 << 20
"""Outputs of this size on go past the caches: below, the next reader still finds them there (measured)."""

_PROGRAMS_KEPT = 256
_CALLS_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Shape:
    """A call's arguments that decide its program and cut. `count` is per rank where the collective splits by rank."""

    collective: Collective
    dtype: DType
    op: ReduceOp
    root: int
    count: int

    def message_bytes(self, n_ranks: int) -> int:
        """The size by which configs are chosen (DESIGN: the larger of a rank's input and output)."""
        return self.count * self.dtype.itemsize * (n_ranks if self.collective.splits_by_rank else 1)


def load_program(collective: Collective, algorithm: str, n_ranks: int, rank: int, root: int) -> _native.Program:
    """Build, compile and load. The root is position 0; the other ranks follow in order.

    Raises:
        UsageError: no such algorithm, or not for this collective and number of ranks.
    """
    order = tuple((position + root) % n_ranks for position in range(n_ranks))
    schedule = build(collective, algorithm, n_ranks)
    return _native.Program(compile_program(collective, schedule, rank, order).flatten())


def slices(
    collective: Collective,
    algorithm: str,
    n_ranks: int,
    message_bytes: int,
    dtype: DType,
    segment_bytes: int,
    staging_bytes: int,
) -> int:
    """Into how many slices a message is cut: configs that differ in segment_bytes only and give one number are one."""
    program = load_program(collective, algorithm, n_ranks, 0, 0)
    count = message_bytes // dtype.itemsize // (n_ranks if collective.splits_by_rank else 1)
    return program.slices(count, DTYPE_NUMBER[dtype], segment_bytes, staging_bytes, SLICES_IN_FLIGHT)


def distinct_names(collective: Collective, n_ranks: int, keep: Collection[str] = ()) -> tuple[str, ...]:
    """Legal algorithms, one of those that do the same: at 2 ranks ring, direct and nhr are one schedule.

    Args:
        keep: algorithms that stay in any case, and stand for their twins.
    """
    legal = names(collective, n_ranks)
    chosen: dict[tuple[frozenset[Transfer], ...], str] = {}
    for name in (*(kept for kept in keep if kept in legal), *legal):
        steps = tuple(frozenset(step) for step in build(collective, name, n_ranks).expand())
        chosen.setdefault(steps, name)
    return tuple(name for name in legal if name in keep or name in chosen.values())


class Calls:
    """The programs and calls of one rank of one group. Not thread-safe, like the communicator that owns it.

    It does not keep the group: what holds the native group holds its memory.
    """

    def __init__(self) -> None:
        self._programs: OrderedDict[tuple[Collective, str, int], _native.Program] = OrderedDict()
        self._calls: OrderedDict[tuple[Shape, Config], _native.Call] = OrderedDict()

    def call(self, group: _native.Group, shape: Shape, config: Config) -> _native.Call:
        """The native call for these arguments; the group is always the same.

        Raises:
            UsageError: a config that the native executor cannot carry out.
        """
        known = self._calls.get((shape, config))
        if known is not None:
            return known
        if config.codec != "none":
            raise UsageError(f"codec {config.codec!r} is not one of: none", remedy="use the codec none")
        if config.segment_bytes is None:
            raise UsageError(f"config {config} has no segment_bytes", remedy="give the native backend a segment size")
        in_flight, stream = _knobs(shape, config, group.n_ranks)
        call = group.prepare(
            self._program(group, shape, config.algorithm),
            COLLECTIVE_NUMBER[shape.collective],
            DTYPE_NUMBER[shape.dtype],
            OP_NUMBER[shape.op],
            shape.root,
            config.algorithm,
            shape.count,
            config.segment_bytes,
            in_flight,
            stream,
        )
        if len(self._calls) >= _CALLS_KEPT:
            self._calls.popitem(last=False)
        self._calls[(shape, config)] = call
        return call

    def _program(self, group: _native.Group, shape: Shape, algorithm: str) -> _native.Program:
        key = (shape.collective, algorithm, shape.root)
        program = self._programs.get(key)
        if program is None:
            program = load_program(shape.collective, algorithm, group.n_ranks, group.rank, shape.root)
            if len(self._programs) >= _PROGRAMS_KEPT:
                self._programs.popitem(last=False)
            self._programs[key] = program
        return program


def _knobs(shape: Shape, config: Config, n_ranks: int) -> tuple[int, bool]:
    knobs: dict[str, KnobValue] = dict(config.knobs)
    in_flight = knobs.pop("slices_in_flight", SLICES_IN_FLIGHT)
    large = shape.message_bytes(n_ranks) >= STREAM_FROM_BYTES
    stores = knobs.pop("stores", "streamed" if large else "cached")
    if knobs:
        raise UsageError(
            f"config {config} has the unknown knob {min(knobs)!r}",
            remedy="the native knobs: slices_in_flight, stores",
        )
    if not isinstance(in_flight, int) or not 1 <= in_flight <= 8:
        raise UsageError(f"slices_in_flight is {in_flight!r}, not 1 to 8", remedy="give a number from 1 to 8")
    if stores not in ("cached", "streamed"):
        raise UsageError(f"stores is {stores!r}", remedy="give cached or streamed")
    return in_flight, stores == "streamed"
