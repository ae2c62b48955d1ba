"""Fused products as they were tuned: into how many tiles of rows a product is cut, by shape, and what that won.

In:  what runtime/torch/tiles.py measured. Out: a file of one entry a line, and back; from how many rows on it pays.
May not touch: torch, groups. Standard library only.
"""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import TableFormatError


class Fusion(enum.Enum):
    """The fused calls."""

    MATMUL_ALL_REDUCE = "matmul_all_reduce"
    ALL_GATHER_MATMUL = "all_gather_matmul"
    MATMUL_REDUCE_SCATTER = "matmul_reduce_scatter"


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedShape:
    """A fused call.

    Args:
        m: rows of this rank's x; k: its columns, and w's rows; p: columns of w.
        placement: ranks on each host, ascending.
    """

    fusion: Fusion
    m: int
    k: int
    p: int
    dtype: str
    placement: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """What was found for a shape.

    Args:
        tiles: the choice; 1 is the product and then the collective.
        vendor: the knobs of the vendor's operator, where that is the choice; None for ours.
        best: the fastest way besides 1 tile, in words: ``4 tiles``, or ``vendor comm_mode=aiv``.
        unfused_us: median of a call of the slowest rank.
        collective_us: the same of the collective alone.
        gain: of `best` over unfused, the median of paired rounds; gain_low, gain_high: its interval.
    """

    tiles: int
    vendor: tuple[tuple[str, str], ...] | None
    best: str
    unfused_us: float
    collective_us: float
    gain: float
    gain_low: float
    gain_high: float

    def __post_init__(self) -> None:
        if self.tiles < 1 or (self.tiles > 1 and self.vendor is not None):
            raise ValueError(f"{self.tiles} tiles, vendor {self.vendor}")

    @property
    def fused(self) -> bool:
        """Whether fusing is the choice."""
        return self.tiles > 1 or self.vendor is not None

    @property
    def hidden(self) -> float:
        """The share of the collective's time that `best` hides; negative where it costs more."""
        return (self.unfused_us - self.unfused_us / self.gain) / self.collective_us


Tilings = Mapping[FusedShape, Tiling]

_FIGURES = ("unfused_us", "collective_us", "gain", "gain_low", "gain_high")
_SIZES = ("m", "k", "p")


def save_tilings(tilings: Tilings, path: str | os.PathLike[str]) -> None:
    """Write them, sorted, private to the user."""
    lines = sorted(json.dumps(_entry(shape, tiling)) for shape, tiling in tilings.items())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


def load_tilings(path: str | os.PathLike[str]) -> dict[FusedShape, Tiling]:
    """What `save_tilings` wrote.

    Raises:
        TableFormatError: it cannot be read, or is no such file.
    """
    try:
        entries = json.loads(Path(path).read_text("utf-8"))
        if not isinstance(entries, list):
            raise ValueError(f"{type(entries).__name__} instead of a list")
        return dict(map(_read, entries))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as err:
        raise TableFormatError(f"{path} holds no numbers of tiles: {err}", remedy="write it by save_tiles()") from err


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where fusing starts to pay, over the rows that were measured for calls that are otherwise alike.

    Args:
        shape: with the fewest rows.
        rows: that were measured, ascending.
        pays_from: the least number of rows from which on fusing is the choice at all that were measured; None if it is
            not at the most rows.
        tilings: by row.
    """

    shape: FusedShape
    rows: tuple[int, ...]
    pays_from: int | None
    tilings: tuple[Tiling, ...]


def crossovers(tilings: Tilings, fusion: Fusion | None = None) -> list[Crossover]:
    """For all calls that differ in rows only; of one fused call, or of all."""
    alike: dict[tuple[object, ...], dict[int, tuple[FusedShape, Tiling]]] = {}
    for shape, tiling in tilings.items():
        if fusion in (None, shape.fusion):
            key = (shape.fusion.value, shape.placement, shape.dtype, shape.k, shape.p)
            alike.setdefault(key, {})[shape.m] = (shape, tiling)
    return [_crossover([by_rows[m] for m in sorted(by_rows)]) for _, by_rows in sorted(alike.items())]


def _crossover(measured: Sequence[tuple[FusedShape, Tiling]]) -> Crossover:
    pays_from = None
    for shape, tiling in reversed(measured):
        if not tiling.fused:
            break
        pays_from = shape.m
    return Crossover(
        shape=measured[0][0],
        rows=tuple(shape.m for shape, _ in measured),
        pays_from=pays_from,
        tilings=tuple(tiling for _, tiling in measured),
    )


def _entry(shape: FusedShape, tiling: Tiling) -> dict[str, object]:
    return {
        "call": shape.fusion.value,
        **{name: getattr(shape, name) for name in (*_SIZES, "dtype")},
        "placement": list(shape.placement),
        "tiles": tiling.tiles,
        "vendor": None if tiling.vendor is None else dict(tiling.vendor),
        "best": tiling.best,
        **{name: round(getattr(tiling, name), 4) for name in _FIGURES},
    }


def _read(entry: Any) -> tuple[FusedShape, Tiling]:  # noqa: ANN401 - what JSON holds
    names = {"call", *(f.name for f in (*fields(FusedShape), *fields(Tiling)))} - {"fusion"}
    if not isinstance(entry, dict) or set(entry) != names:
        raise ValueError(f"an entry of {sorted(entry) if isinstance(entry, dict) else entry!r}")
    shape = FusedShape(
        fusion=Fusion(entry["call"]),
        dtype=_text(entry["dtype"]),
        placement=tuple(map(_whole, _listed(entry["placement"]))),
        **{name: _whole(entry[name]) for name in _SIZES},
    )
    tiling = Tiling(
        tiles=_whole(entry["tiles"]),
        vendor=_knobs(entry["vendor"]),
        best=_text(entry["best"]),
        **{name: _figure(entry[name]) for name in _FIGURES},
    )
    return shape, tiling


def _knobs(value: object) -> tuple[tuple[str, str], ...] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} are no knobs")
    return tuple((_text(name), _text(word)) for name, word in value.items())


def _listed(value: Iterable[object]) -> Iterable[object]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{value!r} is no placement")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{value!r} is not a whole number from 1 up")
    return value


def _figure(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ValueError(f"{value!r} is not a positive number")
    return float(value)
