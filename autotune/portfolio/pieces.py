"""A library's collective in several calls, each on a part of the message. Imports torch.

In:  a shape, flat tensors, a number of pieces. Out: one thing to call. May not touch: groups, choices.

Libraries change their algorithm at sizes that nobody measured: HCCL's all_gather on A3 takes five times as long from
512 KiB a rank on. Two calls below such a size may then take less than one above it. Where ranks' parts are not next to
each other, a piece goes through a buffer of its own, which is part of the price.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import torch

from ..kernels import Shape
from ..types import Collective

_IN_PLACE = (Collective.ALL_REDUCE, Collective.BROADCAST)

Whole = Callable[[Shape, torch.Tensor, torch.Tensor], Callable[[], object]]
"""(shape, input, output) -> the library's call."""


def in_pieces(
    shape: Shape, source: torch.Tensor, target: torch.Tensor, n_ranks: int, pieces: int, whole: Whole
) -> Callable[[], object]:
    """The call; one piece is the library's own.

    Args:
        source: flat, like target; ignored where the collective works in place.
    """
    if pieces == 1 or shape.count < pieces:
        return whole(shape, source, target)
    bounds = [shape.count * piece // pieces for piece in range(pieces + 1)]
    spans = list(pairwise(bounds))
    if shape.collective in _IN_PLACE:
        calls = [whole(replace(shape, count=b - a), target[a:b], target[a:b]) for a, b in spans]
        return lambda: [call() for call in calls]

    def run() -> None:
        for a, b in spans:
            _piece(shape, source, target, n_ranks, a, b, whole)

    return run


def _piece(
    shape: Shape, source: torch.Tensor, target: torch.Tensor, n_ranks: int, a: int, b: int, whole: Whole
) -> None:
    """Elements a to b of every rank's part."""
    own = replace(shape, count=b - a)
    splits_in = shape.collective in (Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL)
    splits_out = shape.collective in (Collective.ALL_GATHER, Collective.ALL_TO_ALL)
    given = source.view(n_ranks, -1)[:, a:b].contiguous().view(-1) if splits_in else source[a:b]
    result = target.new_empty((b - a) * n_ranks) if splits_out else target[a:b]
    whole(own, given, result)()
    if splits_out:
        target.view(n_ranks, -1)[:, a:b].copy_(result.view(n_ranks, -1))
