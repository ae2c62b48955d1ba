"""Whether figures are within what a topology could carry at all. Pure; needs the cost model's limits.

A figure above the topology's theoretical bus bandwidth is wrong, or of another machine, or the topology is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...cost import NetworkModel, least_us, model_of
from ...errors import UsageError
from ...measure import busbw_gb_per_s
from ...topology.graph import Topology
from ...types import Collective
from ...units import format_us
from .log import Figure

_ABOVE_LIMIT = 1.01  # a figure may pass the limit by its rounding


def beyond_topology(
    figures: Iterable[tuple[str, Figure]], topology: Topology, *, staging_bytes: int
) -> tuple[list[str], list[str]]:
    """Figures that no schedule could reach on this topology, and why some were not checked; a sentence each.

    Args:
        figures: with the names of their logs.
        staging_bytes: as the cost model takes it.
    """
    warnings, notes = [], list[str]()
    limits: dict[tuple[Collective, int], float | None] = {}
    for name, figure in figures:
        of = (figure.collective, figure.n_ranks)
        if of not in limits:
            limits[of], why = _limit_gb_per_s(*of, topology, staging_bytes)
            notes += (
                [f"bandwidths of {figure.n_ranks} ranks were not checked against the topology: {why}"] if why else []
            )
        limit = limits[of]
        if limit is None or figure.time_us is None:
            continue
        gb_per_s = busbw_gb_per_s(figure.collective, figure.n_ranks, figure.message_bytes, figure.time_us)
        if gb_per_s > _ABOVE_LIMIT * limit:
            warnings.append(
                f"{name}, line {figure.line}: {figure.collective.value} of {figure.message_bytes} bytes in "
                f"{format_us(figure.time_us)} us means {gb_per_s:,.0f} GB/s of bus bandwidth, above the {limit:,.0f} "
                "GB/s that the topology has"
            )
    return warnings, list(dict.fromkeys(notes))


def _limit_gb_per_s(
    collective: Collective, n_ranks: int, topology: Topology, staging_bytes: int
) -> tuple[float | None, str]:
    """The topology's theoretical bus bandwidth, or None and why it is not known."""
    size_bytes = 1 << 30
    try:
        model = model_of(topology, n_ranks, staging_bytes=staging_bytes)
    except UsageError as err:
        return None, err.message
    if not isinstance(model, NetworkModel):
        return None, "its ranks share the memory of a host, for which there is no such limit"
    least = least_us(model.fabric, model.layout.groups, collective, size_bytes)
    if least is None:
        return None, "one rank moves nothing"
    return busbw_gb_per_s(collective, n_ranks, size_bytes, least), ""
