"""The JSON of HCCL's tuner plugin, version 1 (Ascend 950).

Source: hicann/hccl, examples/06_tuner_plugin (README_en.md, plugin.cpp): ranges hold both ends, the first rule that
matches wins, bytes are one rank's input. One rule that breaks the format makes the plugin pass over the whole file, so
everything is checked here. Legality: src/ops/op_common/selector/cost_model.cc and the vendor's optimize_config.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..errors import AutotuneError
from ..table import TuningTable
from ..types import Collective, DType, RuleKey
from .decisions import Line, lines_of, merged
from .exporter import PLAIN, Exported, Request, Soc, nothing_left
from .words import library

ENGINES = ("aicpu", "ccums", "ccusched", "aiv", "dpu")
EXECUTORS = ("sole", "sequence", "parallel", "pipeline")
MAX_RULES, MAX_RULES_PER_CALL, MAX_FILE_BYTES = 5000, 2000, 4 << 20
_TYPES = {
    DType.FLOAT32: "fp32",
    DType.FLOAT64: "fp64",
    DType.FLOAT16: "fp16",
    DType.BFLOAT16: "bfp16",
    DType.INT8: "int8",
    DType.UINT8: "uint8",
    DType.INT32: "int32",
    DType.INT64: "int64",
}
_NOT_ON_CORES = (DType.INT8, DType.UINT8, DType.FLOAT64, DType.INT64)
_AIV_RANKS, _AIV_BYTES_PER_RANK = 2048, 8 << 20


@dataclass(frozen=True, slots=True)
class HcclTunerExporter:
    """``HCCL_TUNER_CONFIG_FILE`` of the example plugin."""

    name: str = "hccl-tuner"
    suffix: str = ".json"
    summary: str = "HCCL's tuner plugin v1; acts on Ascend 950 alone, on all_reduce, all_gather and reduce_scatter"
    library: str = "hccl-tuner"
    loses: tuple[str, ...] = (
        "collectives other than all_reduce, all_gather and reduce_scatter",
        "operations: a rule for sum is also used for min, max and prod",
        "segments, channels, buffers and every other setting: a rule chooses an algorithm, no more",
        "how many NPUs each server has: a rule is for so many ranks on so many servers",
        "chips other than Ascend 950, on which no plugin is asked",
    )
    checked: str = (
        "loaded by HCCL's example plugin on a CPU, by hand, which answered as the rules say; read by a strict reader "
        "after plugin.cpp in every test run; run on hardware: no"
    )

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        if request.soc not in (None, Soc.A950):
            raise AutotuneError(
                f"HCCL asks a tuner plugin on Ascend 950 alone, not on {request.soc.value}",
                remedy="autotune export --format hccl-env",
            )
        lines, notes = lines_of(
            table, request, library(self.library), sees=lambda key: (key.dtype, len(key.placement)), check=_objection
        )
        if not lines:
            raise nothing_left(self.name, notes, table, request)
        if any("engine" not in line.knobs for line in lines):
            notes = (*notes, "rules that name no engine and executor are written for aicpu and sole")
        by_call: dict[str, list[dict[str, object]]] = {}
        for line in merged(lines, _place):
            by_call.setdefault(line.call.name, []).append(_rule(line))
        document = {"version": 1, "op_types": {name: {"rules": rules} for name, rules in by_call.items()}}
        text = json.dumps(document, indent=1) + "\n"
        counts = [len(rules) for rules in by_call.values()]
        if sum(counts) > MAX_RULES or max(counts) > MAX_RULES_PER_CALL or len(text) > MAX_FILE_BYTES:
            raise AutotuneError(
                f"{sum(counts)} rules, {max(counts)} of them for one collective, in {len(text)} bytes; the plugin "
                f"reads {MAX_RULES} and {MAX_RULES_PER_CALL} in {MAX_FILE_BYTES} bytes",
                remedy="export a table of fewer rank counts and sizes",
            )
        usage = (
            "export HCCL_TUNER_PLUGIN=/path/to/hccl_tuner_example.so",
            "export HCCL_TUNER_CONFIG_FILE={path}",
            "export HCCL_USE_NEW_SELECTOR=1",
        )
        return Exported(text=text, notes=notes, usage=usage)


def _place(line: Line) -> tuple[str, str]:
    """Engine and executor."""
    return str(line.knobs.get("engine", "aicpu")), str(line.knobs.get("executor", "sole"))


def _objection(line: Line) -> str | None:
    engine, executor = _place(line)
    key = line.key
    if engine not in ENGINES:
        return f"engine {engine!r} is not one of {', '.join(ENGINES)}"
    if executor not in EXECUTORS:
        return f"executor {executor!r} is not one of {', '.join(EXECUTORS)} (of others HCCL silently takes another)"
    if engine == "dpu" and len(key.placement) < 2:
        return "the dpu engine needs two servers"
    if engine in ("aiv", "ccums", "ccusched") and key.dtype in _NOT_ON_CORES:
        return f"{engine} does not reduce {key.dtype.value}"
    if engine == "aiv" and key.collective is Collective.REDUCE_SCATTER:
        if key.n_ranks > _AIV_RANKS:
            return f"an aiv reduce_scatter is for at most {_AIV_RANKS} ranks"
        if line.high >= _AIV_BYTES_PER_RANK * key.n_ranks:
            return f"an aiv reduce_scatter is for less than {_AIV_BYTES_PER_RANK} bytes a rank"
    return None


def _rule(line: Line) -> dict[str, object]:
    engine, executor = _place(line)
    match: dict[str, object] = {
        "min_ranks": line.key.n_ranks,
        "max_ranks": line.key.n_ranks,
        "min_bytes": line.low,
        "max_bytes": line.high,
        **_servers(line.key),
    }
    if line.key.dtype is not None:
        match["data_type"] = _TYPES[line.key.dtype]
    return {"match": match, "engine": engine, "executor": executor, "template": line.word, "cost": 0.0}


def _servers(key: RuleKey) -> dict[str, int]:
    """Not the NPUs of a server: a rank knows those of its own alone, so on unequal ones the ranks would disagree."""
    return {"min_servers": len(key.placement), "max_servers": len(key.placement)}
