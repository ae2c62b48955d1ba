"""What may be tried on HCCL: nothing illegal, nothing that hangs, nothing that does nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.hccl import Soc, facts
from autotune.hccl.groups import AUTO, HcclFamily, family_of, mode_of
from autotune.hccl.legal import ALONE, Surroundings, candidates, objection
from autotune.hccl.soc import OPERATORS
from autotune.types import Collective, Config, DType, KnobValue, OpClass, Problem, RuleKey


def key(collective: Collective = Collective.ALL_REDUCE, hosts: int = 2, devices: int = 8) -> RuleKey:
    return RuleKey(
        backend="hccl",
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=hosts * devices,
        placement=(devices,) * hosts,
    )


def config(algorithm: str = AUTO, **knobs: KnobValue) -> Config:
    return Config(algorithm=algorithm, knobs=tuple(sorted(knobs.items())))


@pytest.mark.parametrize(
    ("soc", "of", "tried", "around", "why"),
    [
        (Soc.A310P, key(), config("ring"), ALONE, "310P has no ring for allreduce"),
        (Soc.A3, key(), config("H-D_R"), ALONE, "A3 has no H-D_R"),
        (Soc.A2, key(Collective.BROADCAST), config("ring"), ALONE, "A2 has no ring for broadcast"),
        (Soc.A2, key(Collective.GATHER), config(), ALONE, "HCCL has no gather"),
        (Soc.A2, key(hosts=1), config("ring"), ALONE, "chooses between servers"),
        (Soc.A2, key(), config(hccl_buffer_size=0), ALONE, "hccl_buffer_size=0"),
        (Soc.A2, key(), config(hccl_op_expansion_mode=9), ALONE, "allowed: 0 (default)"),
        (Soc.A910, key(), config(hccl_op_expansion_mode=3), ALONE, "allowed: 0 (default)"),
        (Soc.A2, key(), config(nonsense=1), ALONE, "nonsense is no setting of HCCL on A2"),
        (Soc.A2, key(hosts=1), config(HCCL_RDMA_QPS_PER_CONNECTION=4), ALONE, "acts between servers"),
        (Soc.A2, key(), config(HCCL_MULTI_QP_THRESHOLD=64), ALONE, "acts beside HCCL_RDMA_QPS_PER_CONNECTION alone"),
        (Soc.A3, key(), config(HCCL_OP_EXPANSION_MODE="AIV"), ALONE, "is for every communicator"),
        (Soc.A3, key(), config(HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO="0.5"), ALONE, "does nothing here"),
        (Soc.A3, key(), config(hccl_op_expansion_mode=3), Surroundings(mc2=True), "AIV beside MC2"),
        (Soc.A3, key(), config(hccl_op_expansion_mode=3), Surroundings(aiv_taken=True), "AIV on two communicators"),
        (Soc.A2, key(Collective.SCATTER), config(hccl_op_expansion_mode=3), ALONE, "AIV does not carry out scatter"),
        (Soc.A2, key(), config(hccl_op_expansion_mode=2), ALONE, "AI_CPU does not carry out all_reduce"),
        (Soc.A950, key(), config(hccl_op_expansion_mode=3), ALONE, "AIV is for one server"),
        (Soc.A2, key(), config(hccl_buffer_size=400), Surroundings(least_buffer_mb=452), "below the 452 MB"),
        (Soc.A2, key(), config(), Surroundings(least_buffer_mb=452), "a buffer of 200 MB is below"),
        (Soc.A2, key(Collective.REDUCE), config(pieces=2), ALONE, "is not cut into pieces"),
        (
            Soc.A2, key(), config(),
            Surroundings(environ={"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "1"}), "exclude each other",
        ),
    ],
)  # fmt: skip
def test_what_is_never_tried(soc: Soc, of: RuleKey, tried: Config, around: Surroundings, why: str) -> None:
    found = objection(facts(soc), of, tried, around)
    assert found is not None
    assert why in found


def test_aiv_has_no_prod_and_no_64_bits() -> None:
    aiv = config(hccl_op_expansion_mode=3)
    assert objection(facts(Soc.A3), key(), aiv) is None
    assert "no prod" in str(objection(facts(Soc.A3), replace(key(), op_class=OpClass.PROD), aiv))
    assert "no int64" in str(objection(facts(Soc.A3), replace(key(), dtype=DType.INT64), aiv))


@pytest.mark.parametrize("soc", Soc)
@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("hosts", [1, 4])
def test_candidates_are_legal_distinct_and_begin_with_hccls_choice(
    soc: Soc, collective: Collective, hosts: int
) -> None:
    own = key(collective, hosts)
    found = candidates(facts(soc), Problem(key=own, message_bytes=16 << 20), [config("ring")])
    assert len(set(found)) == len(found)
    assert all(objection(facts(soc), own, one) is None for one in found)
    assert config("portable:ring") in found
    assert (found[0] == config()) == (collective is not Collective.GATHER)
    between = hosts > 1 and "NHR" in facts(soc).level1.get(OPERATORS.get(collective, ""), ())
    assert any(one.algorithm == "NHR" for one in found) == between


def test_a_message_above_aivs_limit_is_tried_in_pieces() -> None:
    of = key(Collective.ALL_GATHER, hosts=1)

    def pieces(message_bytes: int) -> list[Config]:
        found = candidates(facts(Soc.A3), Problem(key=of, message_bytes=message_bytes), [])
        return [one for one in found if "pieces" in dict(one.knobs)]

    assert pieces(8 * 512 * 1024) == []
    assert pieces(8 * 512 * 1024 + 8) == [config(hccl_op_expansion_mode=3, pieces=2)]
    assert pieces(8 * 512 * 1024 * 17) == []


def test_how_configs_fall_on_groups() -> None:
    family = HcclFamily()
    mixed = config("NHR", hccl_buffer_size=50, hccl_op_expansion_mode=3, HCCL_RDMA_TC=132)
    settings = family.group_settings(mixed)
    assert settings == (("hccl_buffer_size", 50), ("hccl_op_expansion_mode", 3))
    assert family.process_settings(mixed) == (("HCCL_RDMA_TC", 132),)
    assert family.memory_bytes(settings, ()) == 100 << 20
    assert family.memory_bytes((), (("HCCL_BUFFSIZE", 300),)) == 600 << 20
    assert family.memory_bytes((), ()) == 400 << 20
    assert family.exclusive(settings, ()) == "AIV"
    assert mode_of((), (("HCCL_OP_EXPANSION_MODE", "AIV"),)) == "AIV"
    made = family.made(settings, {Collective.ALL_REDUCE: "NHR"})
    assert made == {**dict(settings), "hccl_algo": "allreduce=level0:NA;level1:NHR"}
    assert family.schedule(config("portable:ring", hccl_buffer_size=50)) == config("ring")
    assert family.schedule(mixed) is None
    assert family_of("native").schedule(config("ring")) == config("ring")
