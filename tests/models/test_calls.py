"""What a step sends: bytes and calls of known models, worked out by hand; splits that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.measure import busbw_factor
from autotune.models import ModelCall, Phase, Split, Step, activation_bytes, calls_of, kv_cache, model_shape
from autotune.types import Collective, DType

QWEN = model_shape("qwen-72b")
STATE = 8 * 2048 * 8192 * 2  # batch x sequence x hidden x bytes of a bfloat16


def listed(calls: tuple[ModelCall, ...]) -> list[tuple[str, str | None, int, int, int]]:
    return [
        (c.where, None if c.collective is None else c.collective.value, c.message_bytes, c.n_ranks, c.calls_per_step)
        for c in calls
    ]


def test_decoding_sums_one_token_a_sequence_twice_a_layer() -> None:
    step = Step(phase=Phase.DECODE, batch=8)
    assert listed(calls_of(QWEN, Split(tensor=8), step)) == [
        ("embedding", "all_reduce", 8 * 8192 * 2, 8, 1),
        ("after attention", "all_reduce", 8 * 8192 * 2, 8, 80),
        ("after MLP", "all_reduce", 8 * 8192 * 2, 8, 80),
        ("logits", "all_gather", 8 * 152064 * 2, 8, 1),
    ]


def test_training_with_sequence_parallelism_gathers_three_times_a_block() -> None:
    step = Step(phase=Phase.TRAIN, batch=8)
    assert listed(calls_of(QWEN, Split(tensor=8, sequence=True), step)) == [
        ("embedding", "reduce_scatter", STATE, 8, 1),
        ("before attention", "all_gather", STATE, 8, 240),
        ("after attention", "reduce_scatter", STATE, 8, 160),
        ("before MLP", "all_gather", STATE, 8, 240),
        ("after MLP", "reduce_scatter", STATE, 8, 160),
        ("loss (maximum, sum, target)", "all_reduce", 8 * 2048 * 4, 8, 3),
    ]


def test_experts_and_stages() -> None:
    step = Step(phase=Phase.DECODE, batch=128, micro_batches=2)
    calls = calls_of(model_shape("deepseek-v3"), Split(tensor=8, expert=32, pipeline=4), step)
    state = 64 * 7168 * 2
    assert listed(calls) == [
        ("embedding", "all_reduce", state, 8, 2),
        ("after attention", "all_reduce", state, 8, 32),
        ("to the experts", "all_to_all", 8 * state, 32, 32),
        ("from the experts", "all_to_all", 8 * state, 32, 32),
        ("to the next stage", None, state, 2, 2),
        ("logits", "all_gather", 64 * 129280 * 2, 8, 2),
    ]


def test_one_rank_sends_nothing() -> None:
    assert calls_of(QWEN, Split(), Step(phase=Phase.TRAIN)) == ()


@given(
    tensor=st.sampled_from((2, 4, 8)),
    phase=st.sampled_from((Phase.PREFILL, Phase.DECODE)),
    batch=st.integers(1, 4),
    pipeline=st.integers(1, 9),
)
def test_inference_moves_the_same_bytes_with_either_primitive(
    tensor: int, phase: Phase, batch: int, pipeline: int
) -> None:
    """An all_reduce is a reduce_scatter and an all_gather: what their links carry is equal, but for the embedding."""
    step = Step(phase=phase, batch=8 * batch, sequence=64)

    def carried(*, sequence: bool) -> float:
        calls = calls_of(QWEN, Split(tensor=tensor, sequence=sequence, pipeline=pipeline), step)
        blocks = [call for call in calls if call.where.startswith(("before", "after"))]
        assert {call.dtype for call in blocks} == {DType.BFLOAT16}
        return sum(
            call.message_bytes * call.calls_per_step * busbw_factor(call.collective, tensor)
            for call in blocks
            if call.collective is not None
        )

    assert carried(sequence=True) == pytest.approx(carried(sequence=False))


@pytest.mark.parametrize(
    ("split", "step", "complaint"),
    [
        ({"tensor": 7}, {}, "64 heads cannot be shared by 7"),
        ({"tensor": 0}, {}, "tensor parallelism of 0"),
        ({"pipeline": 81}, {}, "80 layers on 81 pipeline stages"),
        ({"expert": 2}, {}, "qwen-72b has no experts"),
        ({"sequence": True}, {}, "cannot be split by sequence over 1 ranks"),
        ({"tensor": 8, "sequence": True}, {"phase": Phase.DECODE, "batch": 3}, "3 tokens cannot be split"),
        ({}, {"batch": 3, "micro_batches": 2}, "a batch of 3 in 2 micro-batches"),
        ({}, {"batch": 0}, "batch 0"),
    ],
)
def test_splits_that_cannot_be(split: dict[str, Any], step: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        calls_of(QWEN, Split(**split), Step(**({"phase": Phase.PREFILL} | step)))
    assert complaint in caught.value.message


def test_experts_that_do_not_divide() -> None:
    with pytest.raises(UsageError, match="mixtral-8x7b has 8 experts, for 3 expert-parallel ranks"):
        calls_of(model_shape("mixtral-8x7b"), Split(expert=3), Step(phase=Phase.PREFILL))


def test_a_gathered_cache_explodes_as_the_formula_says() -> None:
    step = Step(phase=Phase.DECODE, batch=2, sequence=1000)
    found = kv_cache(QWEN, Split(tensor=8), step)
    n, s, h, d, itemsize = 8, 2000, 8, 128, 2  # ranks, tokens, heads of a rank, width, bytes
    assert found.layer_bytes == 2 * n * s * h * d * itemsize
    assert found.gathered_bytes == 80 * found.layer_bytes
    assert found.own_bytes == found.gathered_bytes // 8


def test_fewer_kv_heads_than_ranks_are_kept_more_than_once() -> None:
    step = Step(phase=Phase.DECODE, batch=1, sequence=1000)
    shape = model_shape("qwen3-235b-a22b")  # 4 kv heads
    assert kv_cache(shape, Split(tensor=8), step).own_bytes == kv_cache(shape, Split(tensor=4), step).own_bytes


def test_a_latent_is_whole_on_every_rank() -> None:
    found = kv_cache(model_shape("deepseek-v3"), Split(tensor=8), Step(phase=Phase.DECODE, batch=1, sequence=10))
    assert not found.has_heads
    assert found.own_bytes == found.gathered_bytes == 61 * 10 * 576 * 2


def test_only_sequence_parallelism_splits_what_lies_between_blocks() -> None:
    step = Step(phase=Phase.TRAIN, batch=8)
    assert activation_bytes(QWEN, Split(tensor=8), step) == 4 * STATE
    assert activation_bytes(QWEN, Split(tensor=8, sequence=True), step) == 4 * STATE // 8
    assert activation_bytes(QWEN, Split(tensor=8), Step(phase=Phase.PREFILL, batch=8)) == STATE


def test_collectives_that_nothing_calls_are_left_out() -> None:
    """A dense model on one pipeline of experts' size has no all_to_all, a stage without expert layers neither."""
    calls = calls_of(model_shape("mixtral-8x7b"), Split(tensor=2), Step(phase=Phase.PREFILL))
    assert Collective.ALL_TO_ALL not in {call.collective for call in calls}
