"""The check of a call's arguments between all ranks, before the portable executor sends anything (AUTOTUNE_CHECK=1).

In:  a group and one rank's arguments. Out: nothing, or the same CommunicatorError on every rank, with ranks and fields.
May not touch: the call's tensors. torch.distributed's own all_gather carries the texts, which are of one size on all
ranks, so that ranks in different calls still find each other here.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

import torch
import torch.distributed as dist

from ..errors import CommunicatorError
from ..types import Config
from .knobs import Shape

_TEXT_BYTES = 256
_CONFIG_BYTES = 128
_FIELDS = ("call", "collective", "type", "count", "op", "root", "config")


def agree(
    group: dist.ProcessGroup, number: int, shape: Shape, config: Config, device: torch.device, n_ranks: int
) -> None:
    """Compare this call with that of the other ranks.

    Args:
        number: of calls on this communicator, this one included.
        device: where the group's backend takes tensors.

    Raises:
        CommunicatorError: they differ.
    """
    words = (number, shape.collective.value, shape.dtype.value, shape.count, shape.op.value, shape.root, _short(config))
    text = "\n".join(map(str, words)).encode().ljust(_TEXT_BYTES, b"\0")
    mine = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)
    everyone = [torch.empty_like(mine) for _ in range(n_ranks)]
    dist.all_gather(everyone, mine, group=group)
    if all(torch.equal(theirs, mine) for theirs in everyone):
        return
    calls = [bytes(theirs.tolist()).rstrip(b"\0").decode().split("\n") for theirs in everyone]
    differing = [
        _difference(name, values) for name, *values in zip(_FIELDS, *calls, strict=True) if len(set(values)) > 1
    ]
    raise CommunicatorError(
        f"ranks called different things: {'; '.join(differing)}",
        remedy="make every rank call the same collectives, in one order, with equal sizes, types, roots and configs",
    )


def _short(config: Config) -> str:
    """The config as one word of bounded length; two that differ stay different."""
    text = str(config)
    if len(text.encode()) <= _CONFIG_BYTES:
        return text
    return f"{config.algorithm[:16]}... sha256 {hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _difference(field: str, values: Sequence[str]) -> str:
    """``count: 4 (ranks 0, 2), 5 (rank 1)``."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for rank, value in enumerate(values):
        ranks[value].append(rank)
    shown = [f"{value} (rank{'s' if len(who) > 1 else ''} {', '.join(map(str, who))})" for value, who in ranks.items()]
    return f"{field}: {', '.join(shown)}"
