"""From measured configs to groups: settings, algorithms of a group, variables of the process; and the file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autotune.errors import AutotuneError, TableFormatError
from autotune.hccl.groups import HcclFamily
from autotune.portfolio import Group, Limits, Measured, Portfolio, choose, dump_portfolio, parse_portfolio
from autotune.portfolio.choose import MOST_COMBINATIONS
from autotune.portfolio.family import GLOO
from autotune.types import Collective, Config, DType, KnobValue, OpClass, RuleKey

MIB = 1 << 20


def key(collective: Collective = Collective.ALL_REDUCE, backend: str = "hccl") -> RuleKey:
    return RuleKey(
        backend=backend,
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=16,
        placement=(8, 8),
    )


def config(algorithm: str = "auto", **knobs: KnobValue) -> Config:
    return Config(algorithm=algorithm, knobs=tuple(sorted(knobs.items())))


AUTO, NHR, RING = config(), config("NHR"), config("ring")
AIV, SMALL = config(hccl_op_expansion_mode=3), config(hccl_buffer_size=50)
QPS = config(HCCL_RDMA_QPS_PER_CONNECTION=4)


def cells(times: dict[tuple[Collective, int], dict[Config, float]], backend: str = "hccl") -> list[Measured]:
    found = []
    for (collective, size), by_config in times.items():
        free = min(by_config, key=lambda one: by_config[one])
        found.append(
            Measured(
                key=key(collective, backend),
                from_bytes=size,
                to_bytes=2 * size,
                weight=1.0,
                free=free,
                free_us=by_config[free],
                times_us=by_config,
            )
        )
    return found


REDUCE, GATHER = Collective.ALL_REDUCE, Collective.ALL_GATHER
MEASURED = cells(
    {
        (REDUCE, 1024): {AUTO: 20.0, NHR: 18.0, AIV: 5.0, SMALL: 21.0, QPS: 20.0},
        (REDUCE, 4 * MIB): {AUTO: 300.0, NHR: 200.0, AIV: 400.0, SMALL: 310.0, QPS: 180.0},
        (GATHER, 1024): {AUTO: 30.0, RING: 40.0, AIV: 10.0, SMALL: 31.0, QPS: 30.0},
        (GATHER, 4 * MIB): {AUTO: 500.0, RING: 250.0, AIV: 600.0, SMALL: 490.0, QPS: 450.0},
    }
)


def options(found: Portfolio) -> list[dict[str, KnobValue]]:
    return [dict(group.options) for group in found.groups]


def test_two_groups_serve_small_and_large_messages() -> None:
    found = choose(MEASURED, HcclFamily(), Limits(max_groups=2))
    assert found.proved
    algo = "allgather=level0:NA;level1:ring/allreduce=level0:NA;level1:NHR"
    assert sorted(options(found), key=str) == [{"hccl_algo": algo}, {"hccl_op_expansion_mode": 3}]
    assert found.memory_bytes == 800 * MIB
    # 200 us with NHR against 180 us with more queue pairs, which only a process that has them throughout can have.
    assert found.loss == pytest.approx((200 / 180 - 1) / 4)
    assert [route.config for route in found.routes] == [AIV, NHR, AIV, RING]


def test_one_group_loses_more_and_none_within_too_little_memory() -> None:
    one = choose(MEASURED, HcclFamily(), Limits(max_groups=1))
    assert one.loss > choose(MEASURED, HcclFamily(), Limits(max_groups=2)).loss
    small = choose(MEASURED, HcclFamily(), Limits(max_groups=2, max_memory_bytes=100 * MIB))
    assert options(small) == [{"hccl_buffer_size": 50}]
    with pytest.raises(AutotuneError, match="no 2 groups of 1048576 bytes together were found"):
        choose(MEASURED, HcclFamily(), Limits(max_groups=2, max_memory_bytes=MIB))


def test_the_variables_of_the_process_are_the_same_for_all_groups() -> None:
    large = [replace(cell, weight=0.0 if cell.from_bytes == 1024 else 1.0) for cell in MEASURED if cell.key == key()]
    found = choose(large, HcclFamily(), Limits(max_groups=4))
    assert found.process == (("HCCL_RDMA_QPS_PER_CONNECTION", "4"),)
    assert options(found) == [{}]


def test_aiv_is_one_group_even_where_two_would_be_better() -> None:
    big = config(hccl_op_expansion_mode=3, hccl_buffer_size=400)
    found = choose(
        cells(
            {
                (REDUCE, 1024): {AUTO: 20.0, AIV: 5.0, big: 9.0},
                (REDUCE, 4 * MIB): {AUTO: 300.0, AIV: 200.0, big: 100.0},
            }
        ),
        HcclFamily(),
        Limits(max_groups=3),
    )
    assert sum("hccl_op_expansion_mode" in group for group in options(found)) == 1


def test_schedules_of_ours_run_on_whatever_group_has_the_settings() -> None:
    ours = config("portable:ring")
    times = {(REDUCE, 1024): {AUTO: 9.0, NHR: 5.0}, (REDUCE, MIB): {AUTO: 9.0, ours: 5.0}}
    found = choose(cells(times), HcclFamily(), Limits(max_groups=1))
    assert options(found) == [{"hccl_algo": "allreduce=level0:NA;level1:NHR"}]
    assert [route.config for route in found.routes] == [NHR, ours]
    assert found.loss == 0.0


def test_the_same_solver_serves_gloo() -> None:
    library, threads = config("library"), config("library", gloo_threads=4)
    found = choose(
        cells({(REDUCE, 1024): {library: 5.0, threads: 9.0}, (REDUCE, MIB): {library: 9.0, threads: 5.0}}, "gloo"),
        GLOO,
        Limits(max_groups=2),
    )
    assert sorted(options(found), key=str) == [{"gloo_threads": 4}, {}]
    assert found.memory_bytes == 0


def test_of_too_many_combinations_the_most_useful_are_tried_and_nothing_is_said_to_be_proved() -> None:
    words = ("ring", "NHR", "NB", "H-D_R")
    collectives = (REDUCE, GATHER, Collective.REDUCE_SCATTER, Collective.BROADCAST, Collective.REDUCE)
    times = {
        (collective, 1024 << at): {
            AUTO: 10.0,
            **{config(word): 5.0 if word == words[at] else 9.0 if word == words[0] else 20.0 for word in words},
        }
        for collective in collectives
        for at in range(len(words))
    }
    assert (len(words) + 1) ** len(collectives) > MOST_COMBINATIONS
    found = choose(cells(times), HcclFamily(), Limits(max_groups=1))
    assert [route.config.algorithm for route in found.routes[:: len(words)]] == ["ring"] * len(collectives)
    assert found.loss == pytest.approx(0.6)
    assert (found.bound, found.proved) == (0.0, False)


def test_what_only_seems_faster_than_the_free_choice_makes_no_group() -> None:
    (cell,) = cells({(REDUCE, 1024): {AUTO: 10.0, AIV: 4.0}})
    found = choose([replace(cell, free=AUTO, free_us=10.0)], HcclFamily(), Limits(max_groups=2))
    assert (options(found), found.loss) == ([{}], 0.0)


def test_a_portfolio_reads_back_equal() -> None:
    found = choose(MEASURED, HcclFamily(), Limits(max_groups=3))
    again = parse_portfolio(dump_portfolio(found), "p.json")
    assert again == found
    assert again.digest == found.digest


def test_the_digest_is_of_what_decides() -> None:
    found = choose(MEASURED, HcclFamily(), Limits(max_groups=2))
    assert replace(found, loss=0.5).digest == found.digest
    other = replace(found.groups[0], options=(("hccl_buffer_size", 999),))
    assert replace(found, groups=(other, *found.groups[1:])).digest != found.digest


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("version", 2, "not version 1"),
        ("groups", [], "0 groups"),
        ("extra", 1, "unknown name 'extra'"),
        ("loss", "none", "a finite number"),
    ],
)
def test_a_damaged_file_is_refused(name: str, value: object, complaint: str) -> None:
    document = json.loads(dump_portfolio(choose(MEASURED, HcclFamily(), Limits(max_groups=2))))
    with pytest.raises(TableFormatError, match=complaint):
        parse_portfolio(json.dumps({**document, name: value}), "p.json")


def test_overlapping_routes_are_refused() -> None:
    found = choose(MEASURED, HcclFamily(), Limits(max_groups=2))
    first = found.routes[0]
    with pytest.raises(ValueError, match="sizes overlap"):
        replace(found, routes=(first, first))
    with pytest.raises(ValueError, match="not a group"):
        Group(name="Group 1", options=(), memory_bytes=0)
