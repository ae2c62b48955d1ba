"""The words of a round's request: a problem and its configs as JSON, between a pool and its ranks.

In:  configs, or a request that came as JSON. Out: JSON values, or configs and shapes. May not touch: sockets, ranks.
"""

from __future__ import annotations

from ..kernels import Shape
from ..types import Collective, Config, DType, ReduceOp
from .rank_process import Json


def fields_of(config: Config) -> Json:
    """A config as a request has it."""
    return {
        "algorithm": config.algorithm,
        "segment_bytes": config.segment_bytes,
        "codec": config.codec,
        "knobs": dict(config.knobs),
    }


def config_of(fields: Json) -> Config:
    """The config of `fields_of`."""
    assert isinstance(fields, dict)
    segment_bytes, knobs = fields["segment_bytes"], fields["knobs"]
    assert isinstance(knobs, dict)
    return Config(
        algorithm=str(fields["algorithm"]),
        segment_bytes=None if segment_bytes is None else int(str(segment_bytes)),
        codec=str(fields["codec"]),
        knobs=tuple(sorted((name, value) for name, value in knobs.items() if isinstance(value, int | str))),
    )


def configs_of(request: dict[str, Json]) -> list[Config]:
    """What a round runs, in order."""
    listed = request["configs"]
    assert isinstance(listed, list)
    return [config_of(fields) for fields in listed]


def shape_of(request: dict[str, Json]) -> Shape:
    """The call of a round."""
    return Shape(
        Collective(request["collective"]),
        DType(request["dtype"]),
        ReduceOp(request["op"]),
        0,
        int(str(request["count"])),
    )
