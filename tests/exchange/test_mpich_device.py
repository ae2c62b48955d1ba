"""What MPICH's shared memory keeps and what it leaves to the tree, by the second file of an export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exchange import readers
from exchange.library_tables import config, key, table_of
from exchange.selection_tree import BASE

from autotune.exchange import EXPORTERS, Exported, Request
from autotune.types import Collective, Config

AUTO = config("auto")
RING, DOUBLING, HALVING = (
    config(f"MPIR_Allreduce_intra_{word}") for word in ("ring", "recursive_doubling", "reduce_scatter_allgather")
)
GATHER = "MPIDI_POSIX_mpi_{}_release_gather"


def exported(collective: Collective, by_size: Mapping[int, Config], n_ranks: int = 4) -> Exported:
    rules = {key(collective, n_ranks, "mpich"): by_size}
    return EXPORTERS["mpich"].render(table_of(rules, "mpich"), Request(base=BASE))


def device(made: Exported) -> readers.Decide:
    assert made.beside is not None
    return readers.mpich(made.beside)


def test_it_does_as_before_where_the_table_keeps_mpichs_own_choice() -> None:
    made = exported(Collective.ALL_REDUCE, {64: AUTO, 1024: RING, 65536: AUTO, 1 << 20: DOUBLING, 1 << 24: AUTO})
    keeps, tree = device(made), readers.mpich(made.text)
    for size, word in ((0, None), (64, None), (1023, None), (1024, "ring"), (65535, "ring"), (65536, None)):
        assert keeps("allreduce", 4, size) == (GATHER.format("allreduce") if word is None else None)
        assert word is None or tree("allreduce", 4, size) == f"MPIR_Allreduce_intra_{word}"
    assert keeps("allreduce", 4, 1 << 20) is None
    assert keeps("allreduce", 4, 1 << 24) is not None


def test_it_does_as_before_at_other_rank_counts_and_for_other_collectives() -> None:
    keeps = device(exported(Collective.ALL_REDUCE, {64: RING, 1024: RING}))
    assert [n for n in range(2, 9) if keeps("allreduce", n, 64) is None] == [4]
    assert all(keeps(name, 4, 64) == GATHER.format(name) for name in ("bcast", "barrier", "reduce"))


def test_calls_with_fewer_elements_than_ranks_stay_with_it_where_the_algorithm_needs_more() -> None:
    made = exported(Collective.ALL_REDUCE, {64: HALVING, 1024: HALVING})
    assert made.beside is not None
    assert made.beside.count('"count<pow2"') == made.text.count('"count<pow2"') == 1


def test_all_gather_needs_no_second_file() -> None:
    made = exported(Collective.ALL_GATHER, {64: config("MPIR_Allgather_intra_ring"), 1024: AUTO})
    assert made.beside is None
    assert list(made.files(Path("tree.json"))) == [Path("tree.json")]
    assert len(made.lines(Path("tree.json"))) == 1


def test_both_files_are_named_in_the_lines_for_the_shell(tmp_path: Path) -> None:
    made = exported(Collective.BROADCAST, {64: config("MPIR_Bcast_intra_binomial"), 1024: AUTO})
    path = tmp_path / "the tree.json"
    assert [file.name for file in made.files(path)] == ["the tree.json", "the tree.device.json"]
    assert made.lines(path)[1] == (
        f"export MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE='{tmp_path}/the tree.device.json'"
    )
