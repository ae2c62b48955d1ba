"""The CSV of the vendor's own sweep over algorithms (``prof_test.py`` of HCCL's tuner plugin), 17 columns.

Source: the header of hicann/hccl, examples/06_tuner_plugin/scripts. Sizes are hccl_test's. Each row says what ran:
engine, executor and template become the config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...types import Collective, Config, DType, KnobValue, ReduceOp, TrialState
from ..sizes import Counted, message_bytes_of
from .hccl_test import SIZES
from .lines import Cell, checked_text, nothing_found
from .log import Claim, Figure, Hints, Log
from .rows import header_of, needed, rows_of

COLUMNS = (
    "op_type",
    "size_bytes",
    "data_type",
    "reduce_type",
    "engine",
    "algorithm.executor_type",
    "algorithm.template_type",
    "HCCL_BUFFSIZE",
    "ranks.ranks",
    "ranks.npus_per_server",
    "ranks.servers",
    "ranks.pods",
    "ranks.super_pods",
    "check_result",
    "alg_bandwidth(GB/s)",
    "alg_latency(us)",
    "timestamp(ms)",
)
OPERATORS = {
    "allreduce": Collective.ALL_REDUCE,
    "allgather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "reducescatter": Collective.REDUCE_SCATTER,
    "broadcast": Collective.BROADCAST,
    "reduce": Collective.REDUCE,
    "scatter": Collective.SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
}
TYPES = {
    "fp32": DType.FLOAT32,
    "float32": DType.FLOAT32,
    "fp64": DType.FLOAT64,
    "float64": DType.FLOAT64,
    "fp16": DType.FLOAT16,
    "float16": DType.FLOAT16,
    "bfp16": DType.BFLOAT16,
    "bf16": DType.BFLOAT16,
    "bfloat16": DType.BFLOAT16,
    "int8": DType.INT8,
    "uint8": DType.UINT8,
    "int32": DType.INT32,
    "int64": DType.INT64,
}
_OPS = {op.value: op for op in ReduceOp}
_RESULTS = {
    "success": (TrialState.OK, ""),
    "NULL": (TrialState.OK, ""),
    "failed": (TrialState.WRONG_RESULT, "check_result failed"),
    "noresult": (TrialState.CRASHED, "hccl_test gave no result"),
}


@dataclass(frozen=True, slots=True)
class HcclProfile:
    """prof_test.py."""

    name: str = "hccl-profile"
    summary: str = "the CSV of 17 columns that HCCL's `prof_test.py` writes"
    backend: str = "hccl"
    must_say: tuple[str, ...] = ()

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        return {collective: SIZES[collective] for collective in OPERATORS.values()}

    def recognises(self, text: str) -> bool:
        return set(COLUMNS[:7]) <= set(header_of(text))

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        figures, notes = list[Figure](), list[str]()
        for row in rows_of(checked_text(text, source), source, required=COLUMNS, optional=()):
            figure = _figure(row, hints)
            figures.append(figure)
            if row["check_result"].text == "NULL":
                notes.append("rows with check_result NULL were not checked by hccl_test")
        if not figures:
            raise nothing_found(source, self.name)
        return Log(format_name=self.name, figures=tuple(figures), notes=tuple(dict.fromkeys(notes)))


def _figure(row: dict[str, Cell], hints: Hints) -> Figure:
    operator = needed(row, "op_type")
    where = f"{operator.source}, line {operator.line}"
    collective = hints.collective_of(operator.one_of(OPERATORS, "op_type"), where)
    n_ranks = hints.ranks_of(needed(row, "ranks.ranks").whole("ranks", 1, 1 << 20), where)
    state, message = needed(row, "check_result").one_of(_RESULTS, "check_result")
    size_bytes = needed(row, "size_bytes").whole("size_bytes", 1)
    dtype = needed(row, "data_type").one_of(TYPES, "data_type")
    passed = state is TrialState.OK
    bandwidth = row.get("alg_bandwidth(GB/s)")
    return Figure(
        line=operator.line,
        collective=collective,
        n_ranks=n_ranks,
        message_bytes=message_bytes_of(SIZES[collective], size_bytes, n_ranks),
        time_us=needed(row, "alg_latency(us)").above_zero("alg_latency in us") if passed else None,
        dtype=dtype if collective.computes else None,
        op=needed(row, "reduce_type").one_of(_OPS, "reduce_type") if collective.computes else None,
        state=state,
        message=message,
        config=_config(row),
        placement=_placement(row, n_ranks),
        claims=(Claim(bus=False, printed=bandwidth.text),)
        if passed and bandwidth is not None and SIZES[collective] is Counted.MESSAGE
        else (),
    )


def _config(row: dict[str, Cell]) -> Config:
    knobs: dict[str, KnobValue] = {
        "engine": needed(row, "engine").text,
        "executor": needed(row, "algorithm.executor_type").text,
    }
    if "HCCL_BUFFSIZE" in row:
        knobs["HCCL_BUFFSIZE"] = row["HCCL_BUFFSIZE"].whole("HCCL_BUFFSIZE in MB", 1, 1 << 20)
    template = needed(row, "algorithm.template_type")
    if len(template.text) > 64:
        raise template.error("a template's name")
    return Config(algorithm=template.text, knobs=tuple(sorted(knobs.items())))


def _placement(row: dict[str, Cell], n_ranks: int) -> tuple[int, ...] | None:
    """Ranks on each server, where they are spread evenly."""
    if "ranks.servers" not in row or "ranks.npus_per_server" not in row:
        return None
    servers = row["ranks.servers"].whole("servers", 0, 1 << 20)
    each = row["ranks.npus_per_server"].whole("NPUs on a server", 0, 1 << 20)
    if servers * each == n_ranks:
        return (each,) * servers
    raise row["ranks.servers"].error(f"servers and NPUs on each that make {n_ranks} ranks")
