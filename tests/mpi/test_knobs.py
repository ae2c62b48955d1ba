"""Which of an MPI's algorithms are tried, and by which control variables it runs them; without any MPI."""

from __future__ import annotations

import pytest

from autotune.backends.mpi_knobs import SEGMENTS, call_of, candidates, sample_words, variables, why_not
from autotune.exchange.words import library
from autotune.types import Collective, Config, DType, OpClass, Problem, RuleKey, round_up_message

TUNED = [
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.BROADCAST,
    Collective.REDUCE,
    Collective.ALL_TO_ALL,
]


def problem(
    backend: str, collective: Collective, n_ranks: int = 4, size: int = 1 << 20, dtype: DType = DType.FLOAT32
) -> Problem:
    key = RuleKey(
        backend=backend,
        collective=collective,
        dtype=dtype if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )
    itemsize = dtype.itemsize if collective.computes else 1
    return Problem(key=key, message_bytes=round_up_message(collective, size, n_ranks, itemsize))


@pytest.mark.parametrize("backend", ["openmpi", "mpich"])
@pytest.mark.parametrize("collective", TUNED)
@pytest.mark.parametrize("n_ranks", [2, 3, 4])
def test_every_candidate_is_a_word_of_the_exporter_and_has_variables(
    backend: str, collective: Collective, n_ranks: int
) -> None:
    found = candidates(backend, problem(backend, collective, n_ranks))
    assert len(set(found)) == len(found) > 1
    call = call_of(backend, collective)
    assert call is not None
    words = library(backend)
    for config in found:
        assert config.knobs in ((), *words.starts)
        assert words.start_of(config) == config.knobs
        if config.algorithm == "auto":
            assert config.knobs, "the plain choice of the library is the default, and no candidate beside it"
            continue
        assert words.word(call, config, backend) == config.algorithm
        settings = variables(backend, collective, config)
        assert call.name in " ".join(settings).lower()
        assert ("_segmentsize" in " ".join(settings)) == (config.segment_bytes is not None)


def test_only_what_is_legal_is_tried() -> None:
    def names(backend: str, collective: Collective, n_ranks: int, size: int = 1 << 20) -> set[str]:
        return {config.algorithm for config in candidates(backend, problem(backend, collective, n_ranks, size))}

    assert "two_proc" in names("openmpi", Collective.ALL_GATHER, 2)
    assert not names("openmpi", Collective.ALL_GATHER, 3) & {"two_proc", "neighbor"}
    power = "MPIR_Allgather_intra_recursive_doubling"
    assert power in names("mpich", Collective.ALL_GATHER, 4)
    assert power not in names("mpich", Collective.ALL_GATHER, 3)
    few = "MPIR_Allreduce_intra_reduce_scatter_allgather"
    assert few in names("mpich", Collective.ALL_REDUCE, 4, 16)
    assert few not in names("mpich", Collective.ALL_REDUCE, 4, 8)


def test_segments_only_where_they_cut_the_message() -> None:
    def sizes(size: int) -> list[int | None]:
        found = candidates("openmpi", problem("openmpi", Collective.BROADCAST, size=size))
        return [config.segment_bytes for config in found if config.algorithm == "pipeline" and not config.knobs]

    assert sizes(8) == [None]
    assert sizes(64 << 10) == [None, 16 << 10]
    assert sizes(2 << 20) == [None, *SEGMENTS]
    ring = candidates("openmpi", problem("openmpi", Collective.ALL_REDUCE, size=2 << 20))
    assert [c.segment_bytes for c in ring if c.algorithm == "segmented_ring" and not c.knobs] == list(SEGMENTS)


def test_every_algorithm_and_the_librarys_choice_are_tried_under_every_start() -> None:
    found = candidates("openmpi", problem("openmpi", Collective.ALL_REDUCE))
    plain = {(config.algorithm, config.segment_bytes) for config in found if not config.knobs}
    starts = library("openmpi").starts
    assert starts
    for start in starts:
        under = {(config.algorithm, config.segment_bytes) for config in found if config.knobs == start}
        assert under == plain | {("auto", None)}
    assert library("mpich").starts == ()


def test_the_librarys_own_choice_sets_nothing() -> None:
    auto = Config(algorithm="auto")
    assert variables("openmpi", Collective.ALL_REDUCE, auto) == {}
    assert sample_words("mpich", problem("mpich", Collective.ALL_GATHER), auto) == "uint8 sum"
    ring = sample_words("mpich", problem("mpich", Collective.ALL_REDUCE), Config(algorithm="MPIR_Allreduce_intra_ring"))
    assert ring == "float32 sum MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE=0 MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=ring"


@pytest.mark.parametrize("backend", ["openmpi", "mpich"])
def test_what_an_mpi_does_not_have_is_said(backend: str) -> None:
    assert why_not(backend, problem(backend, Collective.ALL_REDUCE)) is None
    half = why_not(backend, problem(backend, Collective.ALL_REDUCE, dtype=DType.BFLOAT16))
    assert half is not None
    assert "no bfloat16" in half
    scatter = why_not(backend, problem(backend, Collective.SCATTER))
    assert scatter is not None
    assert "is not tuned for scatter" in scatter
