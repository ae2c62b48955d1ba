"""Lossy configs on given data: what is off by too much is refused, the rest is timed and says by how much it is off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.backends.choice import make_backend
from autotune.backends.data import data_word, elements_of
from autotune.backends.data_inputs import DataInputs
from autotune.backends.native import NativeBackend
from autotune.errors import UsageError
from autotune.kernels import Communicator, Shape, create_segment
from autotune.kernels.error_bound import error_bound
from autotune.measure import Failure, Timing
from autotune.settings import read
from autotune.types import (
    Collective,
    Config,
    DType,
    Fidelity,
    OpClass,
    Problem,
    ReduceOp,
    RuleKey,
    SampleKind,
    TrialState,
)

CORES = tuple(sorted(os.sched_getaffinity(0)))
KEY = RuleKey(
    backend="native",
    collective=Collective.ALL_REDUCE,
    dtype=DType.FLOAT32,
    op_class=OpClass.SUM,
    n_ranks=3,
    placement=(3,),
    max_error=0.05,
)
LOSSLESS = Config(algorithm="ring", segment_bytes=16384)


@pytest.fixture
def backend() -> Iterator[NativeBackend]:
    made = NativeBackend(CORES, staging_bytes=8 << 20, timeout_s=5.0, data="sparse:0.5")
    yield made
    made.close()


@pytest.mark.parametrize("collective", [Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_int8_is_timed_and_int4_is_off_by_too_much(
    backend: NativeBackend, collective: Collective, dtype: DType
) -> None:
    problem = Problem(key=replace(KEY, collective=collective, dtype=dtype), message_bytes=3 << 14)
    configs = [LOSSLESS, replace(LOSSLESS, codec="int8"), replace(LOSSLESS, codec="int4")]
    for batch in range(2):
        plain, int8, int4 = backend.measure_round(problem, configs, kind=SampleKind.FRESH, batch=batch)
        assert isinstance(plain, Timing)
        assert plain.fidelity is None
        assert isinstance(int8, Timing)
        assert int8.fidelity is not None
        assert 0.0005 < int8.fidelity.error < 0.03
        assert 0.45 < int8.fidelity.density < 0.55
        bound = error_bound(collective, configs[1], (3,), dtype)
        assert bound is not None
        # The bound is of the sum of the ranks' norms, which is up to n**0.5 times that of a sum of independent ones.
        assert int8.fidelity.error < bound.relative * 3**0.5
        assert isinstance(int4, Failure)
        assert int4.state is TrialState.INVALID
        assert int4.message.startswith("its result is off by 0.")
        assert int4.message.endswith("of its norm on the data, above 0.05")


def test_lossy_candidates_need_a_budget_a_float_and_a_legal_schedule(backend: NativeBackend) -> None:
    def codecs(key: RuleKey) -> set[tuple[str, str]]:
        found = backend.candidates(Problem(key=key, message_bytes=48 << 10))
        return {(config.algorithm, config.codec) for config in found if config.codec != "none"}

    lossy = codecs(KEY)
    assert {"int8", "int4", "threshold(0.1)"} <= {codec for _, codec in lossy}
    assert "recursive_doubling" not in {algorithm for algorithm, _ in lossy}
    for none in (
        replace(KEY, max_error=None),
        replace(KEY, dtype=DType.INT32),
        replace(KEY, op_class=OpClass.PROD),
        replace(KEY, collective=Collective.ALL_GATHER, dtype=None, op_class=None),
    ):
        assert codecs(none) == set()


def test_backends_without_codecs_say_so() -> None:
    with pytest.raises(UsageError, match="gloo has no lossy codecs"):
        make_backend("gloo", CORES, read({}), data="normal")


def test_results_that_change_from_run_to_run_are_found() -> None:
    shape = Shape(Collective.ALL_REDUCE, DType.FLOAT32, ReduceOp.SUM, 0, 3000)
    config = Config(algorithm="ring", segment_bytes=4096, codec="int8")
    fd = create_segment(1, 1 << 20, 0)
    with Communicator(fd, 0, 1, selector=lambda *_: config, cores=1, timeout_s=5.0) as comm:
        os.close(fd)
        given = DataInputs(comm, shape, "normal")
        source, target = memoryview(bytearray(12000)), memoryview(bytearray(12000))
        assert not given.known(config)
        fidelity = given.fidelity(comm.prepare(shape, config), config, source, target)
        assert given.known(config)
        assert isinstance(fidelity, Fidelity)
        assert fidelity.error == 0.0  # one rank sends nothing
        assert given.first_wrong([target], 1) is None
        target[8001] ^= 1
        wrong = given.first_wrong([target], 1)
        assert wrong is not None
        assert wrong[0] == 1024  # the piece of 4 KiB


def test_distributions() -> None:
    for rank in range(2):
        normal, laplace, sparse = (
            elements_of(word, rank, 40_000, DType.FLOAT64) for word in ("normal", "laplace", "sparse:0.9")
        )
        assert normal.std() == pytest.approx(1.0, abs=0.02)
        assert np.abs(laplace).mean() == pytest.approx(1.0, abs=0.03)
        assert np.count_nonzero(sparse) / sparse.size == pytest.approx(0.1, abs=0.01)
    assert not np.array_equal(*(elements_of("normal", rank, 9, DType.FLOAT32) for rank in range(2)))
    bits = elements_of("normal", 0, 100, DType.BFLOAT16)
    assert bits.dtype == np.uint16
    widened = (bits.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(widened, elements_of("normal", 0, 100, DType.FLOAT32), rtol=2**-8)


def test_a_file_is_read_rank_after_rank_and_round_again(tmp_path: Path) -> None:
    file = tmp_path / "data.npy"
    np.save(file, np.arange(5, dtype=np.float32).reshape(1, 5))
    word = data_word(str(file), None)
    assert word.startswith("file:")
    assert word.endswith(f":{file}")
    assert elements_of(word, 0, 4, DType.FLOAT32).tolist() == [0, 1, 2, 3]
    assert elements_of(word, 1, 4, DType.FLOAT16).tolist() == [4, 0, 1, 2]
    np.save(file, np.ones(5))
    assert data_word(str(file), None) != word, "other data, other plan"


def test_data_that_cannot_be_meant(tmp_path: Path) -> None:
    integers, empty, text = tmp_path / "integers.npy", tmp_path / "empty.npy", tmp_path / "text.npy"
    np.save(integers, np.arange(3))
    np.save(empty, np.zeros(0))
    text.write_text("1 2 3")
    for file, words in (
        (integers, "holds no floating-point numbers"),
        (empty, "holds no floating-point numbers"),
        (text, "it is no whole .npy file"),
        (tmp_path / "none.npy", "No such file"),
    ):
        with pytest.raises(UsageError, match=words):
            data_word(str(file), None)
    for word in ("uniform", "sparse", "sparse:2", "sparse:x", "sparse:-0.1"):
        with pytest.raises(UsageError, match=r"is not one of: normal, laplace, sparse:0\.99"):
            data_word(None, word)
    with pytest.raises(UsageError, match="and none is given"):
        data_word(None, None)
    with pytest.raises(UsageError, match="and two are given"):
        data_word("x", "normal")
