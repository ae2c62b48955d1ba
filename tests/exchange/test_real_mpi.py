"""Open MPI and MPICH load what we export for them, and then run the algorithms that the table says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from exchange.library_tables import config, key, table_of
from exchange.real_mpi import Sums, sums, written
from mpi.installed import home_of, installed

from autotune.exchange import EXPORTERS, Request
from autotune.exchange.mpich import base_text
from autotune.exchange.words import Start, library
from autotune.table import TuningTable
from autotune.types import Collective

N_RANKS = 4
WITHOUT_DEVICE = {"MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": "0"}
FROM_THE_FIRST = {"MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "0"}
"""MPICH's shared memory takes all_reduce over at once, not after a few calls."""
SIZES = (64, 511, 512, 8191, 8192, 1 << 20)
FOUR_BYTES = tuple(size // 4 * 4 for size in SIZES)


def table(*names: str) -> TuningTable:
    """The names from 64 bytes, 512 bytes and 8 KiB up to 1 MiB, and nothing beyond."""
    edges = (64, 512, 8192, 1 << 20)
    configs = [config(name) for name in (*names, names[0])]
    return table_of({key(Collective.ALL_REDUCE, N_RANKS): dict(zip(edges, configs, strict=True))})


def under(start: Start, *names: str) -> TuningTable:
    """The same in Open MPI's own words, under settings of the whole job."""
    own = {"flat": "basic_linear"}
    plain = [rule for rules in table(*names).rules.values() for rule in rules]
    by_size = {rule.from_bytes: config(own.get(rule.config.algorithm, rule.config.algorithm)) for rule in plain}
    rules = {size: replace(made, knobs=start) for size, made in by_size.items()}
    return table_of({key(Collective.ALL_REDUCE, N_RANKS, "openmpi"): rules | {1 << 20: config("ring")}}, "openmpi")


def expected(by_name: dict[str, dict[int, str]], *names: str) -> dict[int, str]:
    """What the sums are where these names run, and the library's own choice from 1 MiB on."""
    order = (*names, "own")
    edges = (64, 512, 8192, 1 << 20)
    return {
        size: by_name[[name for name, edge in zip(order, edges, strict=True) if edge <= size][-1]][size]
        for size in FOUR_BYTES
    }


@pytest.fixture(scope="module")
def openmpi(tmp_path_factory: pytest.TempPathFactory) -> Sums:
    return sums("openmpi", home_of("openmpi"), tmp_path_factory.mktemp("openmpi"))


@pytest.fixture(scope="module")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> Sums:
    return sums("mpich", installed("mpich"), tmp_path_factory.mktemp("mpich"))


def tree_of(mpich: Sums) -> str:
    """MPICH's own tree, from its library."""
    [own] = mpich.mpi.launcher.parents[1].glob("lib/libmpi.so.[0-9]*")
    return base_text(own.read_bytes(), str(own))


def test_open_mpi_runs_what_the_rules_say(openmpi: Sums, tmp_path: Path) -> None:
    forced = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_priority": "100"}
    numbers = {"recursive_doubling": 3, "ring": 4, "flat": 1, "own": 0}
    by_name = {
        name: openmpi.of(N_RANKS, FOUR_BYTES, forced | {"OMPI_MCA_coll_tuned_allreduce_algorithm": str(number)})
        for name, number in numbers.items()
    }
    start = library("openmpi").starts[0]
    assert all(len({by_name[n][size] for n in ("ring", "flat", "recursive_doubling")}) == 3 for size in FOUR_BYTES)
    for names in (("flat", "ring", "recursive_doubling"), ("ring", "recursive_doubling", "flat")):
        for exported in (
            EXPORTERS["openmpi"].render(table(*names), Request()),
            EXPORTERS["openmpi"].render(under(start, *names), Request()),
        ):
            path = tmp_path / "rules.conf"
            assert openmpi.of(N_RANKS, FOUR_BYTES, written(exported, path)) == expected(by_name, *names)
        assert f"export OMPI_MCA_{start[0][0]}={start[0][1]}" in exported.usage


def test_open_mpi_keeps_its_own_choice_at_other_rank_counts(openmpi: Sums, tmp_path: Path) -> None:
    exported = EXPORTERS["openmpi"].render(table("flat", "flat", "flat"), Request())
    path = tmp_path / "rules.conf"
    for n_ranks in (3, 5):
        assert openmpi.of(n_ranks, FOUR_BYTES, written(exported, path)) == openmpi.of(n_ranks, FOUR_BYTES, {})


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_mpich_runs_what_the_tree_says(mpich: Sums, tmp_path: Path) -> None:
    words = {"recursive_doubling": "recursive_doubling", "ring": "ring", "tree": "tree"}
    by_name = {
        name: mpich.of(N_RANKS, FOUR_BYTES, WITHOUT_DEVICE | {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": word})
        for name, word in words.items()
    } | {"own": mpich.of(N_RANKS, FOUR_BYTES, FROM_THE_FIRST)}
    assert all(len({by_name[n][size] for n in ("ring", "tree", "recursive_doubling")}) == 3 for size in FOUR_BYTES)
    base = tree_of(mpich)
    for names in (("tree", "ring", "recursive_doubling"), ("ring", "recursive_doubling", "tree")):
        exported = EXPORTERS["mpich"].render(table(*names), Request(base=base))
        env = FROM_THE_FIRST | written(exported, tmp_path / "tree.json")
        assert mpich.of(N_RANKS, FOUR_BYTES, env) == expected(by_name, *names)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_mpich_keeps_its_own_choice_at_other_rank_counts(mpich: Sums, tmp_path: Path) -> None:
    exported = EXPORTERS["mpich"].render(table("ring", "ring", "ring"), Request(base=tree_of(mpich)))
    env = FROM_THE_FIRST | written(exported, tmp_path / "tree.json")
    own = {n_ranks: mpich.of(n_ranks, FOUR_BYTES, FROM_THE_FIRST) for n_ranks in (3, 5)}
    assert own != {n_ranks: mpich.of(n_ranks, FOUR_BYTES, WITHOUT_DEVICE) for n_ranks in own}, "nothing to tell apart"
    assert own == {n_ranks: mpich.of(n_ranks, FOUR_BYTES, env) for n_ranks in own}
