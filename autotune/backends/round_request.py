"""A round as it is asked of ranks, one JSON object: read. `pooled` writes it.

In:  the object. Out: the call's shape and the configs. May not touch: ranks.
"""

from __future__ import annotations

from ..kernels import Shape
from ..types import Collective, Config, DType, ReduceOp
from .rank_process import Json


def shape_of(request: dict[str, Json]) -> Shape:
    """What the call's buffers hold."""
    return Shape(
        Collective(request["collective"]),
        DType(request["dtype"]),
        ReduceOp(request["op"]),
        0,
        int(str(request["count"])),
    )


def configs_of(request: dict[str, Json]) -> list[Config]:
    """Those that compete, in the order of the round."""
    listed = request["configs"]
    assert isinstance(listed, list)
    configs = []
    for fields in listed:
        assert isinstance(fields, dict)
        knobs = fields["knobs"]
        assert isinstance(knobs, dict)
        configs.append(
            Config(
                algorithm=str(fields["algorithm"]),
                segment_bytes=None if fields["segment_bytes"] is None else int(str(fields["segment_bytes"])),
                codec=str(fields["codec"]),
                knobs=tuple(sorted((str(k), v) for k, v in knobs.items() if isinstance(v, int | str))),
            )
        )
    return configs
