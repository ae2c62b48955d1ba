"""``autotune export --format hccl-config``: a module that needs no autotune, and routes as the table decides."""

from __future__ import annotations

import json
import os
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exchange.library_tables import config, key, table_of

from autotune.errors import AutotuneError
from autotune.exchange import EXPORTERS, Request, Soc
from autotune.table import TuningTable
from autotune.types import Collective, Config, Evidence, Phase, Problem, Sample, SampleKind, Trial, TrialState

GOLDEN = Path(__file__).parents[1] / "golden" / "exports" / "hccl-hccl-config.py"
MIB = 1 << 20
AIV, NHR, AUTO = config("auto", hccl_op_expansion_mode=3), config("NHR"), config("auto")
REDUCE = key(Collective.ALL_REDUCE, 16, "hccl", placement=(8, 8))
GATHER = key(Collective.ALL_GATHER, 16, "hccl", placement=(8, 8))
TABLE = table_of({REDUCE: {1024: AIV, MIB: NHR, 8 * MIB: AUTO}, GATHER: {1024: AIV, MIB: AUTO, 8 * MIB: AUTO}}, "hccl")

TIMES = {
    (REDUCE, 1024): (900.0, 950.0, 600.0),
    (REDUCE, MIB): (900.0, 700.0, 800.0),
    (GATHER, 1024): (900.0, 950.0, 600.0),
    (GATHER, MIB): (700.0, 900.0, 800.0),
}
"""Of AUTO, NHR and AIV: the table's choices are the fastest."""


def trial(of: Problem, tried: Config, time_us: float) -> Trial:
    samples = tuple(
        Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=n, position=0, batch_calls=1, time_us=time_us)
        for n in range(9)
    )
    return Trial(trial_id=None, session_id=1, problem=of, config=tried, state=TrialState.OK, samples=samples)


def asked(soc: Soc | None = Soc.A3, **limits: int) -> Request:
    found = [
        trial(Problem(key=of, message_bytes=size), tried, time_us)
        for (of, size), times in TIMES.items()
        for tried, time_us in zip((AUTO, NHR, AIV), times, strict=True)
    ]
    plain = Request(evidence=frozenset(Evidence), trials=tuple(found), soc=soc)
    return replace(plain, **limits)  # type: ignore[arg-type] # the limits of a portfolio


def rendered(table: TuningTable = TABLE, request: Request | None = None) -> tuple[str, str]:
    found = EXPORTERS["hccl-config"].render(table, request or asked())
    return found.text, "\n".join(found.notes)


def loaded(text: str, tmp_path: Path) -> dict[str, Any]:
    module = tmp_path / "groups.py"
    module.write_text(text)
    return runpy.run_path(str(module))


def test_the_module_is_the_golden_one() -> None:
    text, _ = rendered()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == text


def test_the_module_routes_as_the_table_decides(tmp_path: Path) -> None:
    text, notes = rendered()
    module = loaded(text, tmp_path)
    group_of, groups = module["group_of"], module["GROUPS"]

    def made_with(*call: object) -> dict[str, object]:
        options: dict[str, object] = groups[group_of(*call)]
        return options

    assert made_with("all_reduce", 1024, "float32", 16) == {"hccl_op_expansion_mode": 3}
    assert made_with("all_gather", 1024, "bfloat16", 16) == {"hccl_op_expansion_mode": 3}
    assert made_with("all_reduce", MIB, "float32", 16) == {"hccl_algo": "allreduce=level0:NA;level1:NHR"}
    assert group_of("all_reduce", 1023, "float32", 16) is None
    assert group_of("all_reduce", MIB, "float16", 16) is None
    assert group_of("all_reduce", MIB, "float32", 8) is None
    assert "lose 0.00 %" in notes
    assert "800MiB on each rank" in notes


def test_fewer_groups_lose_more_and_say_how_much() -> None:
    _, notes = rendered(request=asked(max_groups=1))
    assert "1 of at most 1 groups, 400MiB on each rank, lose " in notes
    assert "at worst" in notes


def test_what_the_chips_do_not_have_is_left_out(tmp_path: Path) -> None:
    text, notes = rendered(request=asked(Soc.A910))
    assert "hccl_op_expansion_mode" not in text
    assert "hccl_op_expansion_mode=3: allowed: 0 (default)" in notes
    assert "--soc does" in rendered(request=asked(None))[1]


def test_memory_that_no_group_fits_in_is_an_error() -> None:
    with pytest.raises(AutotuneError, match="were found that serve all of"):
        rendered(request=asked(max_group_memory_bytes=MIB))


def test_a_portfolio_has_our_schedules_and_no_word_that_hccl_does_not_know() -> None:
    table = table_of({REDUCE: {1024: config("tree"), MIB: config("portable:ring"), 8 * MIB: AUTO}}, "hccl")
    found = EXPORTERS["portfolio"].render(table, Request(evidence=frozenset(Evidence)))
    assert "'tree' is none of its allreduce algorithms" in "\n".join(found.notes)
    assert "level1:tree" not in found.text
    routes = [(route["from_bytes"], route["config"]["algorithm"]) for route in json.loads(found.text)["routes"]]
    assert routes == [(1024, "auto"), (MIB, "portable:ring")]
