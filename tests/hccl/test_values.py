"""Values of settings, the syntax of HCCL_ALGO, and the minimum of MoE buffers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.hccl import Soc, facts
from autotune.hccl.algo import MAX_LENGTH, read_algo, write_algo
from autotune.hccl.facts import Buffer
from autotune.hccl.moe import MoeShape, least_buffer_mb, moe_algorithm, moe_choices
from autotune.hccl.values import value_fault


@pytest.mark.parametrize(
    ("soc", "name", "value", "why"),
    [
        (Soc.A2, "HCCL_BUFFSIZE", "0", "a whole number from 1"),
        (Soc.A2, "HCCL_BUFFSIZE", "200MB", "a whole number from 1"),
        (Soc.A2, "HCCL_RDMA_TC", "133", "a multiple of 4"),
        (Soc.A2, "HCCL_RDMA_QPS_PER_CONNECTION", "16", "more than the 8 that are advised"),
        (Soc.A2, "HCCL_OP_EXPANSION_MODE", "aiv", "allowed: HOST, HOST_TS, AI_CPU, AIV"),
        (Soc.A3, "HCCL_OP_EXPANSION_MODE", "HOST", "allowed: AI_CPU"),
        (Soc.A910, "HCCL_OP_EXPANSION_MODE", "AIV", "910A has no expansion modes"),
        (Soc.A2, "HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO", "0.5", "for 950"),
        (Soc.A950, "HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO", "1.5", "a share from 0 to 1"),
        (Soc.A950, "HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO", "half", "a share from 0 to 1"),
    ],
)
def test_what_is_wrong_with_a_value(soc: Soc, name: str, value: str, why: str) -> None:
    fault = value_fault(facts(soc).variables[name], value)
    assert fault is not None
    assert why in fault.why
    assert fault.remedy


def test_the_nearest_word_is_named() -> None:
    fault = value_fault(facts(Soc.A2).variables["HCCL_OP_EXPANSION_MODE"], "AICPU")
    assert fault is not None
    assert "did you mean 'AI_CPU'?" in fault.what


@pytest.mark.parametrize(
    ("value", "offset", "what"),
    [
        ("level0:NA;levrl1:ring", 10, "level 'levrl1' is unknown"),
        ("level0:NA;level1:HD_R", 17, "algorithm 'HD_R' is unknown on A2"),
        ("level0:fullmesh;level1:ring", 7, "level0:fullmesh"),
        ("allredcue=level1:ring", 0, "operator 'allredcue' is unknown"),
        ("allreduce=level1:ring/level1:NHR", 22, "names no operator"),
        ("allreduce=level1:ring/allreduce=level1:NHR", 22, "stands there twice"),
        ("broadcast=level0:NA;level1:ring", 27, "algorithm 'ring'"),
        ("level0:NA;level1", 10, "level1 names no algorithm"),
        ("level0:NA;level1:NHR;level2:NHR", 28, "level2:NHR"),
        ("level0:NA;level1:NHR_V1", 17, "algorithm 'NHR_V1'"),
        ("", 0, "no level is named"),
    ],
)
def test_what_is_wrong_with_hccl_algo(value: str, offset: int, what: str) -> None:
    _, faults = read_algo(value, facts(Soc.A2))
    assert [(fault.offset, what in fault.what) for fault in faults] == [(offset, True)]


@given(
    level1=st.dictionaries(
        st.sampled_from(["allreduce", "allgather", "reducescatter"]), st.sampled_from(["ring", "NHR", "NB"]), min_size=1
    )
)
def test_what_is_written_reads_back(level1: dict[str, str]) -> None:
    found, faults = read_algo(write_algo(level1), facts(Soc.A2))
    assert faults == []
    assert found == {operator: {"level0": "NA", "level1": word} for operator, word in level1.items()}


def test_what_does_not_fit_into_hccls_field_is_refused() -> None:
    with pytest.raises(ValueError, match=f"HCCL holds {MAX_LENGTH}"):
        write_algo({f"operator{i}": "NHR" for i in range(60)})


SHAPE = MoeShape(n_ranks=16, tokens=128, hidden=7168, experts=256, top_k=8)


def test_minima_by_hand() -> None:
    # 2 * (128 * 16 * 7168 * min(16, 8) * 2 + 2 MiB)
    assert least_buffer_mb(Buffer.A2_FULLMESH, SHAPE) == 452
    # 256 * 128 * (7168 * 2 + 4 * 8 * 4) + 104 MiB
    assert least_buffer_mb(Buffer.A2_HIERARCHY, SHAPE) == 556
    # 2 * (16 * 128 * 16 * aligned(14336 + 64, 512) + 8 * 128 * 14336)
    assert least_buffer_mb(Buffer.A3_FULLMESH, SHAPE) == 956


def test_what_may_be_tried_of_moe() -> None:
    assert moe_choices(facts(Soc.A2), SHAPE, 500) == [("fullmesh", 0)]
    assert moe_choices(facts(Soc.A2), SHAPE, 600) == [("fullmesh", 0), ("hierarchy", 0), ("hierarchy", 2)]
    assert moe_choices(facts(Soc.A2), SHAPE, 200) == []
    assert moe_algorithm(facts(Soc.A3), "hierarchy", 32).comm_alg == "hierarchy"


@pytest.mark.parametrize(
    ("soc", "comm_alg", "ranks", "quant", "complaint"),
    [
        (Soc.A2, "hierarchy", 8, 0, "not for 8 ranks"),
        (Soc.A2, "fullmesh", 16, 2, "comm_quant_mode 2"),
        (Soc.A3, "fullmesh", 16, 0, "is not one of A3's"),
        (Soc.A3, "hierarchy", 24, 0, "not for 24 ranks"),
        (Soc.A910, "fullmesh", 8, 0, "is not one of 910A's"),
    ],
)
def test_what_moe_does_not_have(soc: Soc, comm_alg: str, ranks: int, quant: int, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        moe_algorithm(facts(soc), comm_alg, ranks, quant)
