"""Into how many tiles a fused product is cut: measured for a shape, remembered, the same on every rank.

In:  shapes and a group. Out: the way that was tuned, one tile for unfused. May not touch: how tiles travel (fused.py),
the file (autotune/table/tiles.py).

`tune_tiles` times the unfused pair, several numbers of tiles, and on NPUs the vendor's fused operator, in interleaved
rounds, as every comparison here is made, and keeps the unfused pair unless another way is significantly faster. What it
found holds for the group's placement in this process, and in others by `save_tiles` and `load_tiles`; all ranks must
load the same file, as they must load the same table. ``autotune explain matmul_all_reduce --tiles FILE`` says from how
many rows on fusing pays.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from ...errors import UsageError
from ...kernels.portable_clock import Clock
from ...measure import ALPHA, MIN_GAIN, MIN_ROUNDS, paired_ratio
from ...table.tiles import FusedShape, Fusion, Tiling, load_tilings, save_tilings
from ...types import Phase, Sample, SampleKind
from .calls import mc2_all_gather, mc2_all_reduce, mc2_reduce_scatter
from .executors import executor
from .vendor import Knobs, VendorOperator, operators

CANDIDATES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a fused call is carried out.

    Args:
        tiles: of rows; 1 is the product and then the collective.
        vendor: the knobs of the vendor's operator, which is called instead; None for ours.
    """

    tiles: int = 1
    vendor: Knobs | None = None

    def __str__(self) -> str:
        if self.vendor is None:
            return f"{self.tiles} tile{'s' if self.tiles > 1 else ''}"
        return " ".join(["vendor", *(f"{name}={value}" for name, value in self.vendor)])


UNFUSED = Way()
_known: dict[FusedShape, Tiling] = {}


def way_of(fusion: Fusion, x: torch.Tensor, w: torch.Tensor, tiles: int | None, group: dist.ProcessGroup | None) -> Way:
    """The way of a call on x (m, k) and w (k, p): by so many tiles, or with None as it was tuned, else unfused.

    Raises:
        UsageError: a number of tiles that is none.
    """
    if tiles is not None:
        if isinstance(tiles, bool) or not isinstance(tiles, int) or tiles < 1:
            raise UsageError(f"tiles is {tiles!r}, not a number from 1 up", remedy="leave it out for the tuned choice")
        return Way(tiles=tiles)
    if not _known:
        return UNFUSED
    known = _known.get(_shape(fusion, len(x), x.shape[1], w.shape[1], x.dtype, group))
    return UNFUSED if known is None else Way(tiles=known.tiles, vendor=known.vendor)


def tune_tiles(
    fusion: Fusion | str,
    m: int,
    k: int,
    p: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    candidates: Sequence[int] = CANDIDATES,
    rounds: int = 15,
    group: dist.ProcessGroup | None = None,
) -> Tiling:
    """Measure a shape on this group and remember the choice; every rank calls it alike.

    Args:
        m, k, p: x is (m, k) and w is (k, p), on each rank.
        candidates: numbers of tiles; 1 is always among them. On NPUs the vendor's operator is, too, with each of its
            knobs; where it fails, or gives another result than the unfused pair, it is left out.
        rounds: interleaved; at least nine.

    Raises:
        UsageError: words or numbers that cannot be meant.
    """
    fusion = _fusion(fusion)
    counts = sorted({1, *candidates})
    if counts[0] < 1 or len(counts) < 2 or rounds < MIN_ROUNDS:
        raise UsageError(
            f"candidates {list(candidates)}, {rounds} rounds: wanted are numbers of tiles above 1 and at least "
            f"{MIN_ROUNDS} rounds",
            remedy="leave them out",
        )
    x, w = torch.rand(m, k, dtype=dtype, device=device), torch.rand(k, p, dtype=dtype, device=device)
    ways = [Way(tiles=n) for n in counts]
    vendor = operators(x.device).get(fusion)
    if vendor is not None:
        ways += [way for way in vendor_ways(vendor) if _works(way, fusion, x, w, group)]
    samples = _measured(fusion, ways, x, w, rounds, group)
    gains = {way: paired_ratio(samples[UNFUSED], samples[way]) for way in ways if way != UNFUSED}
    best = max(gains, key=lambda way: (gains[way].median, -way.tiles))
    gain = gains[best]
    assert gain.low is not None, "nine rounds have an interval"
    assert gain.high is not None, "nine rounds have an interval"
    proven = gain.p_value < ALPHA / len(gains)  # Bonferroni: the best of several is tested
    choice = best if proven and gain.median >= MIN_GAIN else UNFUSED
    found = Tiling(
        tiles=choice.tiles,
        vendor=choice.vendor,
        best=str(best),
        unfused_us=_median_us(samples[UNFUSED]),
        collective_us=_median_us(samples[None]),
        gain=gain.median,
        gain_low=gain.low,
        gain_high=gain.high,
    )
    _known[_shape(fusion, m, k, p, dtype, group)] = found
    return found


def save_tiles(path: str | os.PathLike[str]) -> None:
    """Write what was tuned in this process, one shape a line."""
    save_tilings(_known, path)


def load_tiles(path: str | os.PathLike[str]) -> None:
    """Take what `save_tiles` wrote; every rank loads the same file.

    Raises:
        TableFormatError: it cannot be read, or is no such file; nothing of it is taken then.
    """
    _known.update(load_tilings(path))


def vendor_ways(operator: VendorOperator) -> list[Way]:
    """The ways to try of an operator."""
    return [Way(vendor=knobs) for knobs in operator.candidates]


def _works(way: Way, fusion: Fusion, x: torch.Tensor, w: torch.Tensor, group: dist.ProcessGroup | None) -> bool:
    """Whether the vendor's operator can do it here, on all ranks, and does what the unfused pair does."""
    from .fused import carried_out

    right = carried_out(fusion, UNFUSED, x, w, group)
    try:
        got = carried_out(fusion, way, x, w, group)
        good = torch.allclose(got.float(), right.float(), rtol=3e-2, atol=3e-2 * float(right.abs().max()))
    except RuntimeError:  # of a shape, type or number of ranks that it is not for
        good = False
    everyone = torch.tensor([float(good)], device=x.device)
    dist.all_reduce(everyone, op=dist.ReduceOp.MIN, group=group)
    return bool(everyone)


def _measured(
    fusion: Fusion, ways: Sequence[Way], x: torch.Tensor, w: torch.Tensor, rounds: int, group: dist.ProcessGroup | None
) -> dict[Way | None, list[Sample]]:
    """Times of the slowest rank, in rounds whose order every rank shuffles alike; None is the collective alone."""
    clock = Clock(x.device)
    calls: dict[Way | None, Callable[[], object]] = {way: _bound(fusion, way, x, w, group) for way in ways}
    calls[None] = _collective(fusion, x, w, group)
    for call in calls.values():
        call()

    def meet() -> None:
        dist.barrier(group)

    estimate_s = _slowest(clock.seconds([calls[UNFUSED]], meet), group, x.device)
    repeat = max(1, round(clock.least_s / estimate_s))
    samples: dict[Way | None, list[Sample]] = {way: [] for way in calls}
    for number in range(rounds):
        order = list(calls)
        random.Random(number).shuffle(order)
        for position, way in enumerate(order):
            seconds = clock.seconds([calls[way]] * repeat, meet) / repeat
            samples[way].append(
                Sample(
                    kind=SampleKind.STEADY,
                    phase=Phase.CONFIRM,
                    round=number,
                    position=position,
                    batch_calls=repeat,
                    time_us=_slowest(seconds, group, x.device) * 1e6,
                )
            )
    return samples


def _bound(
    fusion: Fusion, way: Way, x: torch.Tensor, w: torch.Tensor, group: dist.ProcessGroup | None
) -> Callable[[], torch.Tensor]:
    from .fused import carried_out

    return lambda: carried_out(fusion, way, x, w, group)


def _collective(
    fusion: Fusion, x: torch.Tensor, w: torch.Tensor, group: dist.ProcessGroup | None
) -> Callable[[], object]:
    """The collective of the unfused pair by itself."""
    if fusion is Fusion.ALL_GATHER_MATMUL:
        return lambda: mc2_all_gather(x, group=group)
    sums = x.new_zeros(len(x), w.shape[1])
    if fusion is Fusion.MATMUL_REDUCE_SCATTER:
        return lambda: mc2_reduce_scatter(sums, group=group)
    return lambda: mc2_all_reduce(sums, group=group)


def _slowest(seconds: float, group: dist.ProcessGroup | None, device: torch.device) -> float:
    value = torch.tensor([seconds], dtype=torch.float32, device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX, group=group)
    return max(1e-9, float(value))


def _median_us(samples: Sequence[Sample]) -> float:
    times = sorted(sample.time_us for sample in samples)
    return times[len(times) // 2]


def _fusion(word: Fusion | str) -> Fusion:
    try:
        return Fusion(word)
    except ValueError:
        names = ", ".join(one.value for one in Fusion)
        raise UsageError(f"{word!r} is no fused call; those are {names}", remedy="name one of them") from None


def _shape(fusion: Fusion, m: int, k: int, p: int, dtype: torch.dtype, group: dist.ProcessGroup | None) -> FusedShape:
    ranks = executor(group).ranks
    return FusedShape(
        fusion=fusion,
        m=m,
        k=k,
        p=p,
        dtype=str(dtype).removeprefix("torch."),
        placement=ranks.placement or (ranks.n_ranks,),
    )
