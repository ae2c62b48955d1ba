"""Error feedback: a biased stream converges with it and not without, whatever the algorithms; and its bookkeeping."""

from __future__ import annotations

import numpy as np
import pytest
from spec import Array, stored, widened
from wire.executor import run

from autotune.errors import UsageError
from autotune.kernels.codecs import FLOAT_TYPES, Codec
from autotune.kernels.feedback import ErrorFeedback
from autotune.kernels.schedules import build
from autotune.kernels.schedules.wire import follow
from autotune.types import Collective, DType

N, LENGTH, CALLS = 4, 600, 160
ALGORITHMS = ("ring", "recursive_doubling", "tree", "direct", "nhr", "flat")
CODECS = ("threshold(1.0)", "threshold_abs(0.5)", "int8", "int4")


def biased(dtype: DType) -> list[Array]:
    """The same contribution in every call: a few large entries, and many that are too small to be sent."""
    rng = np.random.default_rng(11)
    spread = np.where(rng.random((N, LENGTH)) < 0.02, 8.0, 0.03) * rng.uniform(0.5, 1.5, (N, LENGTH))
    return [stored(values, dtype) for values in spread]


def all_reduce(algorithm: str, codec: Codec, contributions: list[Array], dtype: DType) -> tuple[Array, list[Array]]:
    """(the result, what each rank dropped)."""
    schedule = build(Collective.ALL_REDUCE, algorithm, N)
    charged = follow(Collective.ALL_REDUCE, schedule).charged
    pieces = [np.array_split(values, schedule.blocks) for values in contributions]
    outcome = run(
        Collective.ALL_REDUCE,
        schedule,
        range(N),
        lambda p, b: pieces[p][b],
        codec.native(dtype),
        dtype,
        charged=lambda step, place: place in charged[step],
    )
    return np.concatenate([outcome.outputs[0][b] for b in range(schedule.blocks)]), outcome.dropped


def mean_result(codec: Codec, dtype: DType, calls: int, ranks: list[ErrorFeedback] | None) -> Array:
    """Over calls that change the algorithm every time."""
    stream, total = biased(dtype), np.zeros(LENGTH)
    for call in range(calls):
        contributions = stream
        if ranks is not None:
            contributions = [rank.corrected("g", values, dtype) for rank, values in zip(ranks, stream, strict=True)]
        result, dropped = all_reduce(ALGORITHMS[call % len(ALGORITHMS)], codec, contributions, dtype)
        for rank, lost in zip(ranks or (), dropped, strict=ranks is not None):
            residual = rank.residual("g", LENGTH, dtype)
            residual += lost
        total += widened(result, dtype)
    return total / calls


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
@pytest.mark.parametrize("text", CODECS)
def test_a_biased_stream_converges_with_feedback_only(dtype: DType, text: str) -> None:
    codec = Codec.parse(text)
    exact = np.sum([widened(values, dtype).astype(np.float64) for values in biased(dtype)], axis=0)

    def error(calls: int, ranks: list[ErrorFeedback] | None) -> float:
        return float(np.linalg.norm(mean_result(codec, dtype, calls, ranks) - exact))

    without = error(CALLS, None)
    assert without > 0.8 * error(len(ALGORITHMS), None), "the stream is not biased: errors cancel by themselves"
    ranks = [ErrorFeedback() for _ in range(N)]
    early = error(CALLS // 8, [ErrorFeedback() for _ in range(N)])
    late = error(CALLS, ranks)
    rounding = {DType.FLOAT16: 2.0**-10, DType.BFLOAT16: 2.0**-7}.get(dtype, 2.0**-22)  # of partial sums, as ever
    assert late < 0.5 * early + rounding * np.linalg.norm(exact)
    assert late < 0.25 * without + rounding * np.linalg.norm(exact)
    # What is missing from the sum of the results is in the residuals.
    missing = CALLS * float(np.linalg.norm(exact)) * rounding + sum(rank.norm("g") for rank in ranks)
    assert CALLS * late <= missing * (1 + 1e-6)


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_what_rounding_to_the_type_loses_is_kept(dtype: DType) -> None:
    feedback = ErrorFeedback()
    tiny = 2.0**-30
    feedback.residual("a", 5, dtype)[:] = tiny
    one = stored(np.ones(5), dtype)
    assert feedback.corrected("a", one, dtype).tobytes() == stored(np.full(5, 1 + tiny), dtype).tobytes()
    assert feedback.norm("a") == pytest.approx(0.0 if dtype is DType.FLOAT64 else 5**0.5 * tiny)


def test_contributions_are_not_changed_and_keep_their_shape() -> None:
    feedback = ErrorFeedback()
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    feedback.residual("a", 6, DType.FLOAT32)[:] = 1
    assert feedback.corrected("a", values).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert feedback.norm("a") == 0.0
    assert feedback.corrected("b", memoryview(values)).ravel().tolist() == [0, 1, 2, 3, 4, 5]


def test_inf_and_nan_do_not_stay_in_the_residual() -> None:
    feedback = ErrorFeedback()
    got = feedback.corrected("a", np.array([np.inf, np.nan, 3e38], np.float32))
    np.testing.assert_array_equal(got, np.array([np.inf, np.nan, 3e38], np.float32))
    feedback.residual("a", 3, DType.FLOAT32)[2] = 3e38
    assert np.isinf(feedback.corrected("a", np.array([0, 0, 3e38], np.float32))[2])
    assert feedback.residual("a", 3, DType.FLOAT32).tolist() == [0, 0, 0]


def test_names_norms_and_reset() -> None:
    feedback = ErrorFeedback()
    assert feedback.names() == ()
    for name in ("b", "a"):
        feedback.residual(name, 2, DType.FLOAT32)[:] = (3, 4)
    assert feedback.names() == ("b", "a")
    assert feedback.norm("a") == 5.0
    feedback.reset("b")
    assert feedback.names() == ("a",)
    feedback.reset()
    assert feedback.names() == ()
    for unknown in (lambda: feedback.norm("a"), lambda: feedback.reset("a")):
        with pytest.raises(UsageError, match="no buffer 'a'") as caught:
            unknown()
        assert caught.value.remedy == "it knows: none yet"


def test_another_size_or_type_is_an_error_that_names_both() -> None:
    feedback = ErrorFeedback()
    values = np.ones(5, np.float32)
    feedback.corrected("g", values)
    with pytest.raises(UsageError, match="was for 5 elements of float32, and is now asked for 4 of float32"):
        feedback.corrected("g", values[:4].copy())
    with pytest.raises(UsageError, match="was for 5 elements of float32, and is now asked for 5 of float64"):
        feedback.corrected("g", values.astype(np.float64))
    with pytest.raises(UsageError, match="now asked for 10 of bfloat16") as caught:
        feedback.corrected("g", values, "bfloat16")
    assert "reset('g')" in caught.value.remedy
    with pytest.raises(UsageError, match="int32 is not a floating type"):
        feedback.corrected("h", np.ones(5, np.int32))
    assert feedback.names() == ("g",)
    feedback.reset("g")
    feedback.corrected("g", values[:4].copy())
