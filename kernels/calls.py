"""What is prepared once and used by every call: programs of schedules, and calls of programs, kept in bounded caches.

In:  a shape, a config. Out: native `Call` objects.
May not touch: buffers, other ranks, the table that configs come from.
"""

from __future__ import annotations

from collections import OrderedDict

from ..errors import UsageError
from ..types import SHARED_CORES, Collective, Config, ReduceOp
from . import _native
from .codecs import Codec
from .knobs import OUTBOXES, Knobs, Shape
from .programs import DTYPE_NUMBER, Route, load_program

COLLECTIVE_NUMBER = {collective: number for number, collective in enumerate(Collective)}
OP_NUMBER = {op: number for number, op in enumerate(ReduceOp)}

_PROGRAMS_KEPT = 256
_CALLS_KEPT = 4096


class Calls:
    """The programs and calls of one rank of one group. Not thread-safe, like the communicator that owns it.

    It does not keep the group: what holds the native group holds its memory.

    Args:
        host_of: by rank, the number of its host; None where all share one.
        last_hosts: as of `layout_of`.
        cores: as `shared_cores.sharing` gives them, of a group on one host.
    """

    def __init__(
        self,
        host_of: tuple[int, ...] | None = None,
        last_hosts: tuple[int, ...] = (),
        cores: tuple[int, ...] = (),
    ) -> None:
        self._host_of = host_of
        self._last_hosts = last_hosts
        self._cores = cores
        self._programs: OrderedDict[tuple[Collective, Route, int], _native.Program] = OrderedDict()
        self._calls: OrderedDict[tuple[Shape, Config, bool], _native.Call] = OrderedDict()

    def call(self, group: _native.Group, shape: Shape, config: Config, *, in_place: bool = False) -> _native.Call:
        """The native call for these arguments; the group is always the same.

        Args:
            in_place: whether input and output are one buffer, for configs that exchange by zero copy.

        Raises:
            UsageError: a config that the native executor cannot carry out.
        """
        known = self._calls.get((shape, config, in_place))
        if known is not None:
            return known
        codec = Codec.parse(config.codec)
        objection = codec.objection(shape.collective, shape.dtype, shape.op)
        if objection is not None:
            raise UsageError(f"config {config}: {objection}", remedy="use the codec none")
        if config.segment_bytes is None:
            raise UsageError(f"config {config} has no segment_bytes", remedy="give the native backend a segment size")
        knobs = Knobs.of(shape, config, group.n_ranks)
        if codec.lossy and knobs.exchange != "staged":
            raise UsageError(
                f"config {config}: without copies there are no messages to encode",
                remedy="use exchange=staged, or the codec none",
            )
        if codec.lossy and knobs.shared_cores:
            raise UsageError(
                f"config {config}: what a codec is off by is not known of {SHARED_CORES}",
                remedy=f"leave out {SHARED_CORES}, or use the codec none",
            )
        if knobs.exchange == "single_copy" and (fault := group.single_copy_fault):
            raise UsageError(f"config {config}: {fault}", remedy="use exchange=staged")
        in_place = knobs.exchange == "zero_copy" and in_place
        shared = knobs.shared_cores if self._cores else None
        algorithm = shared or config.algorithm
        route = Route(algorithm, knobs.exchange, in_place, codec.lossy, self._cores if shared else ())
        call = group.prepare(
            self._program(group, shape, route),
            COLLECTIVE_NUMBER[shape.collective],
            DTYPE_NUMBER[shape.dtype],
            OP_NUMBER[shape.op],
            shape.root,
            algorithm,
            shape.count,
            config.segment_bytes,
            knobs.in_flight,
            knobs.stream,
            OUTBOXES.index(knobs.outbox),
            codec.numbers(),
        )
        if len(self._calls) >= _CALLS_KEPT:
            self._calls.popitem(last=False)
        self._calls[(shape, config, in_place)] = call
        return call

    def clear(self) -> None:
        """Forget everything, when the group is left."""
        self._programs.clear()
        self._calls.clear()

    def _program(self, group: _native.Group, shape: Shape, route: Route) -> _native.Program:
        key = (shape.collective, route, shape.root)
        program = self._programs.get(key)
        if program is None:
            program = load_program(
                shape.collective, route, group.n_ranks, group.rank, shape.root, self._host_of, self._last_hosts
            )
            if len(self._programs) >= _PROGRAMS_KEPT:
                self._programs.popitem(last=False)
            self._programs[key] = program
        return program
