"""Which config a call placed by hand gets: the table's, or what its arguments force.

In:  the words of a call (`compression`, `max_error`, `topo`), the table's answer. Out: a `Config`, the same on every
rank that passes the same words.
May not touch: tensors, other ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...errors import UsageError
from ...kernels import lossy_names
from ...kernels.codecs import Codec
from ...kernels.schedules.registry import names
from ...types import Collective, Config

FAMILIES = {"ring": ("ring",), "tree": ("tree", "double_tree")}
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
        topo: ``"ring"`` or ``"tree"``.
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


def choose(wishes: Wishes, ask: Ask, collective: Collective, n_ranks: int) -> Config:
    """The config.

    Raises:
        UsageError: no algorithm does what is wished.
    """
    config = ask(None if wishes.compression is False or isinstance(wishes.compression, str) else wishes.max_error)
    if isinstance(wishes.compression, str):
        config = replace(config, codec=str(Codec.parse(wishes.compression)))
    lossy = config.codec != "none"
    allowed = lossy_names(collective, n_ranks) if lossy else names(collective, n_ranks)
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
            f"{collective.value} over {n_ranks} ranks{f' with {config.codec}' if lossy else ''} has no algorithm "
            f"of topo {wishes.topo!r}; it has {', '.join(allowed) or 'none'}",
            remedy="leave topo out",
        )
    return Config(algorithm=fitting[0], segment_bytes=config.segment_bytes or _SEGMENT_BYTES, codec=config.codec)
