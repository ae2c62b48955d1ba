"""Random tables: the plugins decide what the exporters' Python says, for every kind of call and at every border."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugins.expected import hccl_decision, nccl_decision
from plugins.hosts import (
    HCCL_CALLS,
    HCCL_TYPES,
    IGNORED,
    NCCL_ALGORITHMS,
    NCCL_FUNCTIONS,
    NCCL_PROTOCOLS,
    UNTOUCHED,
    Hccl,
    Nccl,
    environment,
    plugin_environment,
)
from table_strategies import kept, won

from autotune.exchange import Request
from autotune.exchange.words import library
from autotune.importing import library_defaults
from autotune.table import TuningTable, native_defaults, save_table
from autotune.types import Collective, Config, DType, Evidence, KnobValue, Memory, OpClass, RuleKey

ENGINES, EXECUTORS = ("aicpu", "aiv"), ("sole", "parallel")
TEMPLATES = sorted(
    {name for calls in library("hccl-tuner").calls.values() for call in calls for name in call.algorithms}
)
ENTRIES = [(e, x, t, 3.0) for e, x, t in product(ENGINES, EXECUTORS, TEMPLATES)]
PLACEMENTS = ((4,), (2, 2), (1, 3), (8,), (4, 4), (1, 1, 2))

_knobs: st.SearchStrategy[dict[str, KnobValue]] = st.fixed_dictionaries(
    {},
    optional={
        "engine": st.sampled_from((*ENGINES, "ghost")),
        "executor": st.sampled_from(EXECUTORS),
        "protocol": st.sampled_from((*NCCL_PROTOCOLS, "ghost")),
        "channels": st.sampled_from((1, 16, 64, 65, 0, "many")),
        "HCCL_BUFFSIZE": st.sampled_from((200, 400)),
    },
)


@st.composite
def keys(draw: st.DrawFn, backend: str) -> RuleKey:
    collective = draw(st.sampled_from(list(NCCL_FUNCTIONS)))
    placement = draw(st.sampled_from(PLACEMENTS))
    return RuleKey(
        backend=backend,
        collective=collective,
        dtype=draw(st.sampled_from((DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16))) if collective.computes else None,
        op_class=draw(st.sampled_from(OpClass)) if collective.computes else None,
        n_ranks=sum(placement),
        placement=placement,
        memory=draw(st.sampled_from((Memory.PRIVATE, Memory.PRIVATE, Memory.SYMMETRIC))),
        max_error=draw(st.sampled_from((None, None, 0.01))),
    )


@st.composite
def tables(draw: st.DrawFn) -> TuningTable:
    """Of native words, and of a library's own; with words that it does not have."""
    backend, own = draw(st.sampled_from((("native", None), ("hccl", "hccl-tuner"), ("nccl", "nccl"))))
    field_names = ("ring", "tree", "double_tree", "direct", "flat", "nhr", "auto", "ghost", "chain")
    own_names = [n for calls in library(own).calls.values() for c in calls for n in c.algorithms] if own else []
    rules = {}
    for key in draw(st.lists(keys(backend), max_size=6, unique=True)):
        edges = sorted(draw(st.sets(st.integers(0, 40) | st.sampled_from((1 << 20, 1 << 30)), min_size=2, max_size=5)))
        made = []
        for low, high in pairwise(edges):
            config = Config(
                algorithm=draw(st.sampled_from((*field_names, *own_names))), knobs=tuple(sorted(draw(_knobs).items()))
            )
            evidence = draw(st.sampled_from(Evidence))
            make = kept if evidence is Evidence.MEASURED and draw(st.booleans()) else won
            made.append(replace(make(low, high, config), evidence=evidence))
        rules[key] = tuple(made)
    return TuningTable(
        fingerprint=draw(st.sampled_from((None, "0123456789abcdef"))),
        environment={"cpu": 'Kunpeng \N{REGISTERED SIGN} "920" \N{GRINNING FACE}'},
        created_at="2026-01-31T12:00:00Z",
        test="a test",
        rules=rules,
        defaults=native_defaults() if backend == "native" else library_defaults(backend),
    )


def borders(table: TuningTable, key: RuleKey) -> list[int]:
    """Sizes on both sides of every border, in both ways of counting."""
    edges = {edge for rule in table.rules[key] for edge in (rule.from_bytes, rule.to_bytes)}
    found = {max(0, at + step) for edge in edges for at in (edge, edge // key.n_ranks) for step in (-1, 0, 1)}
    return sorted(found)


_checked = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@_checked
@given(table=tables(), evidence=st.sets(st.sampled_from(Evidence), min_size=1))
def test_hccl_is_told_what_the_exporter_says(
    table: TuningTable, evidence: set[Evidence], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("hccl")
    save_table(table, folder / "t.json")
    words = ",".join(kind.value for kind in evidence)
    request = Request(evidence=frozenset(evidence))
    with environment(plugin_environment(folder / "t.json", AUTOTUNE_EVIDENCE=words)):
        host = Hccl(folder)
        for comm, placement in enumerate(PLACEMENTS, 1):
            host.communicator(comm * 16, n_ranks=sum(placement), n_servers=len(placement))
        for key, dtype in product(table.rules, (DType.FLOAT32, DType.FLOAT16, DType.INT64)):
            if key.collective not in HCCL_CALLS:
                continue
            for n_bytes in borders(table, key):
                wanted = hccl_decision(
                    table,
                    request,
                    collective=key.collective,
                    n_ranks=key.n_ranks,
                    n_servers=len(key.placement),
                    dtype=dtype,
                    n_bytes=n_bytes,
                )
                comm = 16 * (1 + PLACEMENTS.index(key.placement))
                got = host.decide(comm, HCCL_CALLS[key.collective], HCCL_TYPES[dtype], n_bytes, ENTRIES)
                there = wanted is not None and any(entry[:3] == wanted for entry in ENTRIES)
                assert got == ([0.0 if entry[:3] == wanted else 3.0 for entry in ENTRIES] if there else None)


@_checked
@given(table=tables(), evidence=st.sets(st.sampled_from(Evidence), min_size=1), version=st.sampled_from((2, 3, 4, 5)))
def test_nccl_is_told_what_the_exporter_says(
    table: TuningTable, evidence: set[Evidence], version: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("nccl")
    save_table(table, folder / "t.json")
    words = ",".join(kind.value for kind in evidence)
    request = Request(evidence=frozenset(evidence))
    with environment(plugin_environment(folder / "t.json", AUTOTUNE_EVIDENCE=words)):
        for key in table.rules:
            with Nccl(folder, version, n_ranks=key.n_ranks, n_nodes=len(key.placement)) as host:
                for n_bytes in borders(table, key):
                    wanted = nccl_decision(
                        table,
                        request,
                        collective=key.collective,
                        n_ranks=key.n_ranks,
                        n_nodes=len(key.placement),
                        n_bytes=n_bytes,
                    )
                    if version == 2 and wanted is not None and wanted[1] is None:
                        wanted = None  # version 2 takes an algorithm with its protocol or not at all
                    assert host.decide(NCCL_FUNCTIONS[key.collective], n_bytes) == _costs(wanted)


def _costs(wanted: tuple[str, str | None, int] | None) -> tuple[list[float], int]:
    cells = list(product(NCCL_ALGORITHMS, NCCL_PROTOCOLS))
    if wanted is None:
        return [UNTOUCHED] * len(cells), 0
    algorithm, protocol, channels = wanted
    if protocol is None:
        return [UNTOUCHED if a == algorithm else IGNORED for a, _ in cells], channels
    return [0.0 if (a, p) == (algorithm, protocol) else UNTOUCHED for a, p in cells], channels


def test_what_a_library_has_ruled_out_stays_out(tmp_path: Path) -> None:
    """A cost below 0 in HCCL's entries, an ignored cell in NCCL's table: the plugin does not intervene there."""
    key = RuleKey(
        backend="native",
        collective=Collective.ALL_REDUCE,
        dtype=DType.FLOAT32,
        op_class=OpClass.SUM,
        n_ranks=8,
        placement=(8,),
    )
    knobs = (("channels", 4), ("protocol", "ll"))
    rules = {key: (won(8, 1024, Config(algorithm="nhr")), won(1024, 2048, Config(algorithm="ring", knobs=knobs)))}
    table = TuningTable(
        fingerprint=None,
        environment={},
        created_at="2026-01-31T12:00:00Z",
        test="a test",
        rules=rules,
        defaults=native_defaults(),
    )
    save_table(table, tmp_path / "t.json")
    with environment(plugin_environment(tmp_path / "t.json")):
        host = Hccl(tmp_path)
        host.communicator(16, n_ranks=8)
        entries = [("aicpu", "sole", "nhr", -1.0), ("aicpu", "sole", "mesh", 2.0)]
        assert host.decide(16, 2, 4, 8, entries) is None
        entries[1:] = [("aicpu", "sole", "nhr", 2.0), ("aicpu", "sole", "nhr", 1.0)]
        assert host.decide(16, 2, 4, 8, entries) == [-1.0, 0.0, 1.0]
        assert host.decide(32, 2, 4, 8, entries) is None  # a communicator that was never announced
        host.communicator(16, n_ranks=4)  # another one at the same address
        assert host.decide(16, 2, 4, 8, entries) is None
        costs = [UNTOUCHED] * 21
        costs[3] = IGNORED  # ring, ll
        with Nccl(tmp_path, 5, n_ranks=8) as nccl:
            assert nccl.decide(4, 1500, costs) == (costs, 0)
            costs[3] = UNTOUCHED
            assert nccl.decide(4, 1500, costs)[0][3] == 0.0
            assert nccl.decide(4, 1500)[1] == 4
            assert nccl.decide(99, 1500) == ([UNTOUCHED] * 21, 0)
