"""A slice of a call whose messages are encoded (schedules/wire.py has the rules; portable_codecs.py the bytes).

In:  a lossy plan, a codec over tensors, the residual of this rank's contribution or none. Out: results in the output,
and in the residual what encoding dropped.
May not touch: arguments, configs, which block goes where.

A message is the heads of its blocks, in the order of blocks, and where the codec has tails a second message with those.
How long a tail is says the head, so a rank waits for the heads of a step at once; in the order in which all ranks post
(portable.py) heads and tails of one slice's step are one place, so that cannot dead-lock either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..types import ReduceOp
from .portable_codecs import Encoded, TensorCodec
from .portable_plan import Area, Cut, Encode, Message, Plan, Run
from .portable_slices import Slice, Transport


@dataclass(frozen=True, slots=True)
class _Arriving:
    """A message of which the heads are here, or on their way."""

    peer: int
    places: tuple[torch.Tensor, ...]  # of its blocks, where they are decoded to; none is empty
    heads: torch.Tensor


class EncodedSlice(Slice):
    """One slice on its way through the steps, encoded.

    Args:
        codec: equal on all ranks.
        residual: of the input's length, takes what this rank is charged with; None where nobody asks.
    """

    def __init__(
        self,
        plan: Plan,
        way: Cut,
        number: int,
        op: ReduceOp,
        source: torch.Tensor | None,
        target: torch.Tensor | None,
        memory: torch.Tensor,
        transport: Transport,
        codec: TensorCodec,
        residual: torch.Tensor | None,
    ) -> None:
        super().__init__(plan, way, number, op, source, target, memory, transport)
        self._codec = codec
        self._residual = residual
        self._arriving: list[tuple[_Arriving, torch.Tensor | None]] = []

    def _arrived(self) -> None:
        """Decode what the step before brought."""
        for message, tails in self._arriving:
            at = used = 0
            for place in message.places:
                head = message.heads[at : at + self._head_bytes(place)]
                at += head.numel()
                tail = None
                if tails is not None:
                    length = self._codec.tail_elements(head, place.numel())
                    tail, used = tails[used : used + length], used + length
                self._codec.decode(Encoded(head, tail), place)
        self._arriving = []

    def _post(self, sends: Sequence[Message], receives: Sequence[Message], encodes: Sequence[Encode]) -> list[Any]:
        leaving = {encode.source.block: self._encoded(encode) for encode in encodes}
        heads: list[tuple[int, torch.Tensor]] = []
        tails: list[tuple[int, torch.Tensor]] = []
        for message in sends:
            blocks = [one for run in message.runs if (one := leaving[run.block]) is not None]
            if blocks:
                heads.append((message.peer, torch.cat([block.head for block in blocks])))
                kept = [block.tail for block in blocks if block.tail is not None]
                if kept:
                    tails.append((message.peer, torch.cat(kept)))
        coming = [arriving for message in receives if (arriving := self._coming(message)) is not None]
        works = self._transport.post(heads, [(one.peer, one.heads) for one in coming])
        if not self._codec.has_tail:
            self._arriving = [(one, None) for one in coming]
            return works
        for work in works:
            work.wait()
        self._arriving = [(one, self._room_for_tails(one)) for one in coming]
        return self._transport.post(
            [(peer, tail) for peer, tail in tails if tail.numel()],
            [(one.peer, room) for one, room in self._arriving if room is not None and room.numel()],
        )

    def _encoded(self, encode: Encode) -> Encoded | None:
        """A block that leaves, and what that does to this rank's own; None where the slice has nothing of it."""
        values = self._view(encode.source)
        if not values.numel():
            return None
        encoded = self._codec.encode(values)
        charged = encode.charged if self._residual is not None else None
        if encode.target is None and charged is None:
            return encoded
        kept = torch.empty_like(values)
        self._codec.decode(encoded, kept)
        if charged is not None:
            assert self._residual is not None
            weight = self._plan.n_ranks if encode.divided and self._op is ReduceOp.AVG else 1
            residual = self._part(self._residual, charged)
            dropped = values.to(residual.dtype).sub_(kept.to(residual.dtype)).mul_(weight)
            residual.add_(torch.where(dropped.isfinite(), dropped, 0.0))
        if encode.target is not None:
            self._view(encode.target).copy_(kept)
        return encoded

    def _coming(self, message: Message) -> _Arriving | None:
        """Room for the heads of a message; None where the slice has nothing of it."""
        places = tuple(place for run in message.runs if (place := self._view(run)).numel())
        if not places:
            return None
        size = sum(map(self._head_bytes, places))
        return _Arriving(message.peer, places, places[0].new_empty(size, dtype=torch.uint8))

    def _room_for_tails(self, message: _Arriving) -> torch.Tensor:
        at = length = 0
        for place in message.places:
            head = message.heads[at : at + self._head_bytes(place)]
            at += head.numel()
            length += self._codec.tail_elements(head, place.numel())
        return message.places[0].new_empty(length)

    def _head_bytes(self, place: torch.Tensor) -> int:
        return self._codec.head_bytes(place.numel(), place.dtype)

    def _part(self, vector: torch.Tensor, run: Run) -> torch.Tensor:
        """The slice's part of a run in another vector that is laid out as the input."""
        assert run.area is Area.INPUT
        start, length = self._place(run)
        return vector[start : start + length]
