"""The data of every family of chips: complete, strict, with sources, and nothing illegal among what is tried."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from autotune.errors import TableFormatError
from autotune.exchange.words import library
from autotune.hccl import Soc, facts
from autotune.hccl.facts import ValueKind
from autotune.hccl.load import parse_facts
from autotune.hccl.soc import OPERATORS
from autotune.hccl.values import value_fault
from autotune.topology.machines import machine_names

EVERYWHERE = (
    "HCCL_ALGO",
    "HCCL_BUFFSIZE",
    "HCCL_OP_EXPANSION_MODE",
    "HCCL_RDMA_QPS_PER_CONNECTION",
    "HCCL_MULTI_QP_THRESHOLD",
    "HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO",
)


@pytest.mark.parametrize("soc", Soc)
def test_every_family_has_its_file(soc: Soc) -> None:
    known = facts(soc)
    assert known.soc is soc
    assert set(EVERYWHERE) <= known.variables.keys()
    assert set(known.machines) <= set(machine_names())
    for setting in (*known.variables.values(), *known.group_options.values()):
        assert setting.source, setting.name
        assert setting.kind is not ValueKind.NO_EFFECT or setting.why
    for conflict in known.conflicts:
        assert conflict.why
        assert conflict.source
        assert conflict.remedy


@pytest.mark.parametrize("soc", Soc)
def test_what_is_tried_is_legal(soc: Soc) -> None:
    known = facts(soc)
    for setting in known.variables.values():
        for value in (*setting.tries, *(() if setting.default is None else (setting.default,))):
            assert value_fault(setting, str(value)) is None, (setting.name, value)
    for setting in known.group_options.values():
        for value in setting.tries:
            assert value_fault(setting, str((setting.codes or {}).get(str(value), value))) is None


def test_the_exporters_words_are_a_part_of_the_same_algorithms() -> None:
    for collective, operator in OPERATORS.items():
        for word, about in library("hccl-env").calls[collective][0].algorithms.items():
            for soc in about["socs"]:
                assert word in facts(Soc(soc)).level1[operator], (operator, word, soc)


def test_310p_has_no_hccl_algo_and_950_only_nhr() -> None:
    assert facts(Soc.A310P).variables["HCCL_ALGO"].kind is ValueKind.NO_EFFECT
    assert {word for words in facts(Soc.A950).level1.values() for word in words} == {"NHR"}


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("soc",), "A4", "allowed: A2, A3"),
        (("extra",), 1, "unknown name 'extra'"),
        (("variables", "HCCL_BUFFSIZE", "kind"), "wohle", "allowed: whole"),
        (("variables", "HCCL_BUFFSIZE", "low"), None, "variables.HCCL_BUFFSIZE"),
        (("variables", "HCCL_MULTI_QP_THRESHOLD", "beside"), {"HCCL_QPS": "4"}, "which is no variable"),
        (("conflicts", 0, "when"), [["A", "equals", "B"]], "allowed: is, not"),
        (("moe", 0, "buffer"), "a4", "allowed: a2_fullmesh"),
        (("selection", "rules", 0, "collective"), "allreduce", "all_reduce"),
    ],
)
def test_the_reader_is_strict(path: tuple[str | int, ...], value: object, complaint: str) -> None:
    text = (resources.files("autotune.hccl") / "socs" / "A2.json").read_text("utf-8")
    document = json.loads(text)
    at = document
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    with pytest.raises(TableFormatError, match=r"A2\.json") as found:
        parse_facts(json.dumps(document), "A2.json")
    assert complaint in found.value.message
