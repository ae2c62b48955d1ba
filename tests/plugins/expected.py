"""What a plugin has to decide, by the Python that the exporters are made of."""

from __future__ import annotations

from collections.abc import Callable

from plugins.hosts import NCCL_PROTOCOLS

from autotune.exchange import Request
from autotune.exchange.decisions import Line, lines_of
from autotune.exchange.words import library
from autotune.table import TuningTable
from autotune.types import Collective, DType, RuleKey


def _decided(
    table: TuningTable,
    request: Request,
    name: str,
    sees: Callable[[RuleKey], object],
    check: Callable[[Line], str | None],
    *,
    collective: Collective,
    n_ranks: int,
    n_hosts: int,
    dtype: DType | None,
    n_bytes: int,
) -> Line | None:
    lines, _ = lines_of(table, request, library(name), sees=sees, check=check)
    found = [
        line
        for line in lines
        if line.key.collective is collective
        and line.key.n_ranks == n_ranks
        and len(line.key.placement) == n_hosts
        and (dtype is None or line.key.dtype in (None, dtype))
        and line.low <= n_bytes <= line.high
    ]
    assert len(found) <= 1
    return found[0] if found else None


def hccl_decision(
    table: TuningTable,
    request: Request,
    *,
    collective: Collective,
    n_ranks: int,
    n_servers: int,
    dtype: DType,
    n_bytes: int,
) -> tuple[str, str, str] | None:
    """Engine, executor and template; None: HCCL's own choice."""
    line = _decided(
        table,
        request,
        "hccl-tuner",
        lambda key: (key.dtype, len(key.placement)),
        lambda line: None,
        collective=collective,
        n_ranks=n_ranks,
        n_hosts=n_servers,
        dtype=dtype,
        n_bytes=n_bytes,
    )
    if line is None:
        return None
    return str(line.knobs.get("engine", "aicpu")), str(line.knobs.get("executor", "sole")), line.word


def nccl_decision(
    table: TuningTable, request: Request, *, collective: Collective, n_ranks: int, n_nodes: int, n_bytes: int
) -> tuple[str, str | None, int] | None:
    """Algorithm, protocol (None: NCCL's choice) and channels (0: NCCL's number); None: NCCL's own choice."""
    line = _decided(
        table,
        request,
        "nccl",
        lambda key: len(key.placement),
        _nccl_objection,
        collective=collective,
        n_ranks=n_ranks,
        n_hosts=n_nodes,
        dtype=None,
        n_bytes=n_bytes,
    )
    if line is None:
        return None
    protocol = line.knobs.get("protocol")
    return line.word, None if protocol is None else str(protocol), int(line.knobs.get("channels", 0))


def _nccl_objection(line: Line) -> str | None:
    protocol, channels = line.knobs.get("protocol"), line.knobs.get("channels")
    if protocol is not None and protocol not in NCCL_PROTOCOLS:
        return "no protocol of NCCL's"
    if channels is not None and not (isinstance(channels, int) and 1 <= channels <= 64):
        return "no number of channels"
    return None
