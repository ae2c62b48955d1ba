"""Error feedback through real calls: a biased stream converges with it only, and no error is lost or counted twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ranks.cases import Call
from ranks.pool import Groups
from spec import FLOATS, Array, exact
from wire.calls import legal

from autotune import ErrorFeedback
from autotune.errors import UsageError
from autotune.kernels.communicator import Communicator
from autotune.types import Collective, DType, ReduceOp

C = Collective
ALGORITHMS = ["ring", "recursive_doubling", "tree", "direct", "nhr", "flat"]
STREAM = Call(collective=C.ALL_REDUCE, algorithm="ring", count=900, segment_bytes=1024, values="biased", codec="int4")


def streamed(groups: Groups, n: int, call: Call, algorithms: list[str], times: int, *, feedback: bool) -> list[Array]:
    """(sum over calls of the results, sum over ranks of the residuals), as float64."""
    step = {"do": "feedback", "group": str(n), "call": call.to_json(), "calls": times, "feedback": feedback}
    answers = groups.ask(n, {rank: [{**step, "algorithms": algorithms}] for rank in range(n)})
    assert all(answer.results == [{"kept": True}] for answer in answers), answers
    totals = [np.frombuffer(answer.outputs[0], np.float64) for answer in answers]
    if call.collective is C.REDUCE_SCATTER:
        result = np.concatenate(totals)
    else:
        assert all(np.array_equal(total, totals[0]) for total in totals)
        result = totals[0]
    left = [np.frombuffer(answer.outputs[1], np.float64) for answer in answers if feedback]
    return [result, np.sum(left, axis=0) if feedback else np.zeros(result.size)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("codec", ["threshold(1.0)", "threshold_abs(0.5)", "int8", "int4"])
def test_error_feedback_makes_a_biased_stream_converge(groups: Groups, dtype: DType, codec: str) -> None:
    """Without it, the same part is lost every time. The algorithm changes from call to call."""
    call, times = replace(STREAM, dtype=dtype, codec=codec), 96
    wanted = exact(call.inputs(4), ReduceOp.SUM, dtype)
    without, _ = streamed(groups, 4, call, ALGORITHMS, times, feedback=False)
    early, _ = streamed(groups, 4, call, ALGORITHMS, times // 8, feedback=True)
    late, _ = streamed(groups, 4, call, ALGORITHMS, times, feedback=True)
    lost = float(np.linalg.norm(without / times - wanted))
    rounding = {DType.FLOAT16: 2.0**-10, DType.BFLOAT16: 2.0**-7}.get(dtype, 2.0**-22) * float(np.linalg.norm(wanted))
    assert lost > 0.001 * np.linalg.norm(wanted), "the codec drops nothing of this stream"
    kept = float(np.linalg.norm(late / times - wanted))
    assert kept < 0.25 * lost + rounding
    assert kept < 0.5 * float(np.linalg.norm(early / (times // 8) - wanted)) + rounding


@pytest.mark.parametrize("collective", [C.ALL_REDUCE, C.REDUCE_SCATTER])
@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.AVG])
@pytest.mark.parametrize("n", [2, 4, 5])
def test_results_and_residuals_add_up_to_the_contributions(
    groups: Groups, collective: Collective, op: ReduceOp, n: int
) -> None:
    """Whatever is dropped is in one rank's residual, once, in units of a contribution. In float64."""
    for number, algorithm in enumerate(legal(collective, n)):
        codec = ("int4", "threshold(1.0)")[number % 2]
        call = replace(STREAM, collective=collective, op=op, dtype=DType.FLOAT64, codec=codec, count=n * 130)
        result, left = streamed(groups, n, call, [algorithm], 3, feedback=True)
        wanted = 3 * exact(call.inputs(n), ReduceOp.SUM, DType.FLOAT64)
        assert np.linalg.norm(left) > 1e-3 * np.linalg.norm(wanted), "nothing was dropped"
        result = result * (n if op is ReduceOp.AVG else 1)
        np.testing.assert_allclose(result + left, wanted, rtol=0, atol=1e-10, err_msg=f"{algorithm} {codec}")


def test_feedback_without_a_codec_adds_what_is_left_and_keeps_nothing(alone: Communicator) -> None:
    feedback = ErrorFeedback()
    feedback.residual("g", 3, DType.FLOAT32)[:] = 0.5
    values, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    alone.all_reduce(values, out=out, feedback=feedback, name="g")
    assert out.tolist() == [0.5, 1.5, 2.5]
    assert values.tolist() == [0, 1, 2]
    assert feedback.norm("g") == 0.0
    with pytest.raises(UsageError, match="only one is given"):
        alone.all_reduce(values, feedback=feedback)
    with pytest.raises(UsageError, match="only one is given"):
        alone.reduce_scatter(values, out, name="g")
    with pytest.raises(UsageError, match="error feedback for max"):
        alone.all_reduce(values, "max", feedback=feedback, name="g")


def test_a_call_that_is_refused_leaves_the_residual_alone(alone: Communicator) -> None:
    feedback = ErrorFeedback()
    feedback.residual("g", 3, DType.FLOAT32)[:] = 0.5
    values, fixed = np.zeros(3, np.float32), np.zeros(3, np.float32)
    fixed.setflags(write=False)
    for out in (np.zeros(4, np.float32), fixed):
        with pytest.raises(UsageError):
            alone.all_reduce(values, out=out, feedback=feedback, name="g")
    assert feedback.residual("g", 3, DType.FLOAT32).tolist() == [0.5] * 3
