"""How many tiles a fused product is cut into: measured for a shape, remembered, the same on every rank.

In:  shapes and a group. Out: a number of tiles, 1 for unfused. May not touch: how tiles travel (fused.py).

`tune_tiles` times the unfused pair and several numbers of tiles in interleaved rounds, as every comparison here is
made, and keeps the unfused pair unless a number of tiles is significantly faster. What it found holds for the group's
size in this process, and in others by `save_tiles` and `load_tiles`; all ranks must load the same file, as they must
load the same table.
"""

from __future__ import annotations

import enum
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ...errors import TableFormatError, UsageError
from ...measure import ALPHA, MIN_GAIN, MIN_ROUNDS, Comparison, paired_ratio
from ...types import Phase, Sample, SampleKind

CANDIDATES = (1, 2, 4, 8)
_LEAST_S = 2e-4  # a sample is so many calls that they take about as long, as DESIGN.md's trials


class Fusion(enum.Enum):
    """The fused calls."""

    MATMUL_ALL_REDUCE = "matmul_all_reduce"
    ALL_GATHER_MATMUL = "all_gather_matmul"
    MATMUL_REDUCE_SCATTER = "matmul_reduce_scatter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A fused call: rows m and inner dimension k of this rank's x, columns p of its w."""

    fusion: Fusion
    m: int
    k: int
    p: int
    dtype: str
    n_ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """What was found for a shape.

    Args:
        tiles: the choice; 1 is unfused.
        best: the fastest number of tiles above 1.
        unfused_us: median of a call of the slowest rank.
        gain: of `best` over unfused, in paired rounds.
    """

    tiles: int
    best: int
    unfused_us: float
    gain: Comparison


_known: dict[Shape, int] = {}


def tiles_of(fusion: Fusion, m: int, k: int, p: int, dtype: torch.dtype, group: dist.ProcessGroup | None) -> int:
    """The number of tiles that was tuned for a shape; 1 where it was not."""
    if not _known:
        return 1
    return _known.get(_shape(fusion, m, k, p, dtype, group), 1)


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
        candidates: numbers of tiles; 1 is always among them.
        rounds: interleaved; at least nine.

    Raises:
        UsageError: words or numbers that cannot be meant.
    """
    from .fused import gathered, reduced, scattered

    fusion = _fusion(fusion)
    counts = sorted({1, *candidates})
    if counts[0] < 1 or len(counts) < 2 or rounds < MIN_ROUNDS:
        raise UsageError(
            f"candidates {list(candidates)}, {rounds} rounds: wanted are numbers of tiles above 1 and at least "
            f"{MIN_ROUNDS} rounds",
            remedy="leave them out",
        )
    run = {
        Fusion.MATMUL_ALL_REDUCE: reduced,
        Fusion.ALL_GATHER_MATMUL: gathered,
        Fusion.MATMUL_REDUCE_SCATTER: scattered,
    }[fusion]
    x, w = torch.rand(m, k, dtype=dtype, device=device), torch.rand(k, p, dtype=dtype, device=device)
    calls: dict[int, Callable[[], torch.Tensor]] = {n: _bound(run, x, w, n, group) for n in counts}
    samples = _measured(calls, rounds, group, x.device)
    gains = {n: paired_ratio(samples[1], samples[n]) for n in counts if n > 1}
    best = max(gains, key=lambda n: (gains[n].median, -n))
    proven = gains[best].p_value < ALPHA / len(gains)  # Bonferroni: the best of several is tested
    tiles = best if proven and gains[best].median >= MIN_GAIN else 1
    _known[_shape(fusion, m, k, p, dtype, group)] = tiles
    times = sorted(sample.time_us for sample in samples[1])
    return Tiling(tiles=tiles, best=best, unfused_us=times[len(times) // 2], gain=gains[best])


def save_tiles(path: str | os.PathLike[str]) -> None:
    """Write what was tuned in this process, one shape a line."""
    lines = sorted(json.dumps(_fields(shape) | {"tiles": tiles}) for shape, tiles in _known.items())
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def load_tiles(path: str | os.PathLike[str]) -> None:
    """Take what `save_tiles` wrote; every rank loads the same file.

    Raises:
        TableFormatError: it cannot be read, or is no such file; nothing of it is taken then.
    """
    try:
        entries = json.loads(Path(path).read_text("utf-8"))
        found = {_read(entry): _whole(entry["tiles"]) for entry in entries}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as err:
        raise TableFormatError(f"{path} holds no numbers of tiles: {err}", remedy="write it by save_tiles()") from err
    _known.update(found)


def _measured(
    calls: dict[int, Callable[[], torch.Tensor]],
    rounds: int,
    group: dist.ProcessGroup | None,
    device: torch.device,
) -> dict[int, list[Sample]]:
    """Times of the slowest rank, in rounds whose order every rank shuffles alike."""
    for call in calls.values():
        call()
    began_s = time.perf_counter()
    calls[1]()
    slowest_s = _slowest(time.perf_counter() - began_s, group, device)
    repeat = max(1, round(_LEAST_S / slowest_s))
    samples: dict[int, list[Sample]] = {n: [] for n in calls}
    for number in range(rounds):
        order = sorted(calls)
        random.Random(number).shuffle(order)
        for position, n in enumerate(order):
            dist.barrier(group)
            began_s = time.perf_counter()
            for _ in range(repeat):
                calls[n]()
            _wait_for_device(device)
            time_us = _slowest((time.perf_counter() - began_s) / repeat, group, device) * 1e6
            samples[n].append(
                Sample(
                    kind=SampleKind.STEADY,
                    phase=Phase.CONFIRM,
                    round=number,
                    position=position,
                    batch_calls=repeat,
                    time_us=time_us,
                )
            )
    return samples


def _slowest(seconds: float, group: dist.ProcessGroup | None, device: torch.device) -> float:
    value = torch.tensor([seconds], dtype=torch.float32, device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX, group=group)
    return max(1e-9, float(value))


def _wait_for_device(device: torch.device) -> None:
    """Products on an accelerator are only queued when a call returns."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def _bound(run: Callable[..., torch.Tensor], *arguments: Any) -> Callable[[], torch.Tensor]:  # noqa: ANN401 - run's own
    return lambda: run(*arguments)


def _fusion(word: Fusion | str) -> Fusion:
    try:
        return Fusion(word)
    except ValueError:
        names = ", ".join(one.value for one in Fusion)
        raise UsageError(f"{word!r} is no fused call; those are {names}", remedy="name one of them") from None


def _shape(fusion: Fusion, m: int, k: int, p: int, dtype: torch.dtype, group: dist.ProcessGroup | None) -> Shape:
    n_ranks = dist.get_world_size(group)
    return Shape(fusion=fusion, m=m, k=k, p=p, dtype=str(dtype).removeprefix("torch."), n_ranks=n_ranks)


def _fields(shape: Shape) -> dict[str, object]:
    return {
        "call": shape.fusion.value,
        "m": shape.m,
        "k": shape.k,
        "p": shape.p,
        "dtype": shape.dtype,
        "n_ranks": shape.n_ranks,
    }


def _read(entry: dict[str, Any]) -> Shape:
    numbers = {name: _whole(entry[name]) for name in ("m", "k", "p", "n_ranks")}
    if set(entry) != {*numbers, "call", "dtype", "tiles"} or not isinstance(entry["dtype"], str):
        raise ValueError(f"an entry of {sorted(entry)}")
    return Shape(fusion=Fusion(entry["call"]), dtype=entry["dtype"], **numbers)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{value!r} is not a whole number from 1 up")
    return value
