"""Which config a call placed by hand gets: the table's, or what its arguments force.

In:  the words of a call (`compression`, `max_error`, `topo`), the table's answer. Out: a `Config`, the same on every
rank that passes the same words.
May not touch: tensors, other ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from ...errors import UsageError
from ...kernels.codecs import Codec
from ...kernels.programs import layout_of
from ...kernels.schedules.registry import build, names
from ...kernels.schedules.wire import codec_legality
from ...types import Collective, Config

FAMILIES = {"ring": ("ring",), "tree": ("tree", "double_tree"), "hierarchical": ("hierarchical",)}
"""What `topo` restricts to; the first legal one stands in where the table's choice is of another family."""

_SEGMENT_BYTES = 256 << 10  # of a forced algorithm whose table has no segment size to take over

Ask = Callable[[float | None], Config]
"""error budget -> the table's config"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a call says beyond its tensors; None leaves it to the table.

    Args:
        compression: True lets the table choose within `max_error`, False forbids it, a codec's word forces that codec.
        max_error: allowed error relative to the norm.
        topo: ``"ring"``, ``"tree"``, or over several hosts ``"hierarchical"``.
    """

    compression: bool | str | None = None
    max_error: float | None = None
    topo: str | None = None

    def __post_init__(self) -> None:
        if self.topo is not None and self.topo not in FAMILIES:
            raise UsageError(
                f"topo {self.topo!r} is not one of: {', '.join(FAMILIES)}", remedy="leave it out for the tuned choice"
            )
        if self.compression is True and self.max_error is None:
            raise UsageError(
                "compression=True without an error budget", remedy="give max_error=, or a codec such as 'int8'"
            )
        if isinstance(self.compression, str):
            Codec.parse(self.compression)

    @property
    def lossy(self) -> bool:
        """Whether a codec may come out."""
        if isinstance(self.compression, str):
            return Codec.parse(self.compression).lossy
        return self.compression is not False and self.max_error is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The ranks of a group.

    Args:
        host_of: by rank, the number of its host; None where all share one.
    """

    n_ranks: int
    host_of: tuple[int, ...] | None = None

    @property
    def placement(self) -> tuple[int, ...] | None:
        """Ranks on each host, ascending; None for one host."""
        if self.host_of is None:
            return None
        return tuple(sorted(map(self.host_of.count, set(self.host_of))))


def choose(wishes: Wishes, ask: Ask, collective: Collective, ranks: Ranks) -> Config:
    """The config.

    Raises:
        UsageError: no algorithm does what is wished.
    """
    config = ask(None if wishes.compression is False or isinstance(wishes.compression, str) else wishes.max_error)
    if isinstance(wishes.compression, str):
        config = replace(config, codec=str(Codec.parse(wishes.compression)))
    lossy = config.codec != "none"
    allowed = _legal(collective, ranks, lossy=lossy)
    if wishes.topo is None:
        # Direct sends each value once, so it is encoded least often.
        family = (config.algorithm, "direct", *allowed) if lossy else (config.algorithm,)
    else:
        family = FAMILIES[wishes.topo]
    if config.algorithm in family and (config.algorithm in allowed or not lossy):
        return config
    fitting = [name for name in family if name in allowed]
    if not fitting:
        raise UsageError(
            f"{collective.value} over {ranks.n_ranks} ranks{f' with {config.codec}' if lossy else ''} has no algorithm "
            f"of topo {wishes.topo!r}; it has {', '.join(allowed) or 'none'}",
            remedy="leave topo out",
        )
    return Config(algorithm=fitting[0], segment_bytes=config.segment_bytes or _SEGMENT_BYTES, codec=config.codec)


@lru_cache(maxsize=256)
def _legal(collective: Collective, ranks: Ranks, *, lossy: bool) -> tuple[str, ...]:
    """Algorithms that these ranks can run; of them those that may carry a lossy codec. With those that do the same as
    another one (unlike `kernels.lossy_names`), since callers name a family."""
    layout = layout_of(ranks.n_ranks, 0, ranks.host_of)
    found = names(collective, ranks.n_ranks, layout)
    if not lossy:
        return found
    built = {name: build(collective, name, ranks.n_ranks, layout) for name in found}
    return tuple(name for name in found if codec_legality(collective, built[name]) is None)
