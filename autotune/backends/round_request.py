"""A round as it is asked of ranks, one JSON object, which `pooled` puts together.

In:  the object. Out: the call's shape and the configs, and a config in the object's terms. May not touch: ranks.
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
    return [config_of(fields) for fields in listed]


def config_of(fields: Json) -> Config:
    """One config, as `fields_of` gives it."""
    assert isinstance(fields, dict)
    segment_bytes, knobs = fields["segment_bytes"], fields["knobs"]
    assert isinstance(knobs, dict)
    return Config(
        algorithm=str(fields["algorithm"]),
        segment_bytes=None if segment_bytes is None else int(str(segment_bytes)),
        codec=str(fields["codec"]),
        knobs=tuple(sorted((str(name), value) for name, value in knobs.items() if isinstance(value, int | str))),
    )


def fields_of(config: Config) -> Json:
    """A config as a request has it."""
    return {
        "algorithm": config.algorithm,
        "segment_bytes": config.segment_bytes,
        "codec": config.codec,
        "knobs": dict(config.knobs),
    }
