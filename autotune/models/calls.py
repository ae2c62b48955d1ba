"""What a step of a model sends: every collective of every layer, with its bytes and how often it is called.

In:  a shape, how the model is split over ranks, one step. Out: `ModelCall` values for one rank. Pure.

Tensor parallelism after Megatron-LM (Shoeybi et al. 2019, section 3): each attention block and each MLP ends in one sum
over the group, and backward in one more. With sequence parallelism (Korthikanti et al. 2022, section 4.2) that sum is
a reduce_scatter, and an all_gather stands before the block; backward does the opposite, and gathers the block's input
once more instead of keeping it. Mixture of experts after GShard (Lepikhin et al. 2020): tokens go to the ranks of
their experts and back by all_to_all; counts are those of an even router.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import UsageError
from ..types import Collective, DType
from .shape import ModelShape


class Phase(enum.Enum):
    """What a step is: the prompt of a batch, one token for each of its sequences, or forward and backward."""

    PREFILL = "prefill"
    DECODE = "decode"
    TRAIN = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How a model lies on ranks.

    Args:
        tensor: ranks that share every layer's weights.
        sequence: whether what lies between tensor-parallel blocks is split by tokens (sequence parallelism).
        pipeline: stages, each with its share of the layers.
        expert: ranks that share the experts of a layer.
    """

    tensor: int = 1
    sequence: bool = False
    pipeline: int = 1
    expert: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step.

    Args:
        batch: sequences.
        sequence: tokens of each: of the prompt, or the context that decoding attends to.
        micro_batches: into which a pipeline cuts the batch.
    """

    phase: Phase
    batch: int = 1
    sequence: int = 2048
    micro_batches: int = 1

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch that go through a layer at once."""
        return self.batch // self.micro_batches * (1 if self.phase is Phase.DECODE else self.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One kind of call of one rank.

    Args:
        where: in the model, for people.
        collective: None for sends and receives between pipeline stages.
        message_bytes: the larger of a rank's input and output buffer.
        dtype: of the elements.
        calls_per_step: of one rank; the stage with the most layers counts.
    """

    where: str
    collective: Collective | None
    message_bytes: int
    n_ranks: int
    dtype: DType
    calls_per_step: int


def calls_of(shape: ModelShape, split: Split, step: Step, dtype: DType = DType.BFLOAT16) -> tuple[ModelCall, ...]:
    """The calls of one step, in the order in which a token meets them.

    Raises:
        UsageError: the model cannot be split so.
    """
    check_split(shape, split, step)
    return tuple(call for call in _calls(shape, split, step, dtype) if call.calls_per_step)


def check_split(shape: ModelShape, split: Split, step: Step) -> None:
    """Raises UsageError where heads, experts, layers or batch do not divide, or a group has nothing to share."""
    for name, number in (("tensor", split.tensor), ("pipeline", split.pipeline), ("expert", split.expert)):
        if number < 1:
            raise UsageError(f"{name} parallelism of {number}", remedy="give a number from 1 up")
    if min(step.batch, step.sequence, step.micro_batches) < 1:
        raise UsageError(f"batch {step.batch}, sequence {step.sequence}", remedy="give numbers from 1 up")
    if shape.heads % split.tensor:
        raise UsageError(
            f"{shape.heads} heads cannot be shared by {split.tensor} tensor-parallel ranks",
            remedy=f"--tensor-parallel with a divisor of {shape.heads}",
        )
    if split.pipeline > shape.layers:
        raise UsageError(
            f"{shape.layers} layers on {split.pipeline} pipeline stages", remedy=f"at most {shape.layers} stages"
        )
    if step.batch % step.micro_batches:
        raise UsageError(
            f"a batch of {step.batch} in {step.micro_batches} micro-batches",
            remedy=f"--micro-batches with a divisor of {step.batch}",
        )
    if split.expert > 1 and (shape.experts is None or shape.experts % split.expert):
        raise UsageError(
            f"{shape.name} has {shape.experts or 'no'} experts, for {split.expert} expert-parallel ranks",
            remedy="leave --expert-parallel out" if shape.experts is None else "give a divisor of the experts",
        )
    if split.sequence and (split.tensor == 1 or step.tokens % split.tensor):
        raise UsageError(
            f"{step.tokens} tokens cannot be split by sequence over {split.tensor} ranks",
            remedy="leave --sequence-parallel out, or choose batch and sequence to fit",
        )


def _calls(shape: ModelShape, split: Split, step: Step, dtype: DType) -> Iterator[ModelCall]:
    state_bytes = step.tokens * shape.hidden * dtype.itemsize
    layers = -(-shape.layers // split.pipeline) * step.micro_batches
    moe_layers = min(-(-shape.layers // split.pipeline), shape.moe_layers) * step.micro_batches
    train = step.phase is Phase.TRAIN

    def call(where: str, what: Collective | None, size: int, ranks: int, times: int) -> ModelCall:
        return ModelCall(
            where=where, collective=what, message_bytes=size, n_ranks=ranks, dtype=dtype, calls_per_step=times
        )

    if split.tensor > 1:
        first = Collective.REDUCE_SCATTER if split.sequence else Collective.ALL_REDUCE
        yield call("embedding", first, state_bytes, split.tensor, step.micro_batches)
        # Experts that are shared out over ranks of their own end in all_to_all instead of a sum.
        dense = layers - (moe_layers if split.expert > 1 else 0)
        for where, times in (("attention", layers), ("MLP", dense)):
            if split.sequence:
                gathers = 3 if train else 1  # forward, the gradient of the reduce_scatter, and the block's input again
                yield call(f"before {where}", Collective.ALL_GATHER, state_bytes, split.tensor, times * gathers)
                yield call(
                    f"after {where}", Collective.REDUCE_SCATTER, state_bytes, split.tensor, times * (2 if train else 1)
                )
            else:
                sums = 2 if train else 1
                yield call(f"after {where}", Collective.ALL_REDUCE, state_bytes, split.tensor, times * sums)
    if split.expert > 1:
        # With sequence parallelism a rank routes its own tokens only.
        own = step.tokens // (split.tensor if split.sequence else 1)
        rows = -(-own * (shape.experts_per_token or 0) // split.expert) * split.expert
        routed = rows * shape.hidden * dtype.itemsize
        for where in ("to the experts", "from the experts"):
            yield call(where, Collective.ALL_TO_ALL, routed, split.expert, moe_layers * (2 if train else 1))
    if split.pipeline > 1:
        sent = state_bytes // (split.tensor if split.sequence else 1)
        yield call("to the next stage", None, sent, 2, step.micro_batches * (2 if train else 1))
    if split.tensor > 1:
        yield from _logits(shape, split, step, dtype)


def _logits(shape: ModelShape, split: Split, step: Step, dtype: DType) -> Iterator[ModelCall]:
    """The vocabulary is shared out, too: logits of the last token are gathered, a loss needs three numbers a token."""
    if step.phase is Phase.TRAIN:
        yield ModelCall(
            where="loss (maximum, sum, target)",
            collective=Collective.ALL_REDUCE,
            message_bytes=step.tokens * DType.FLOAT32.itemsize,
            n_ranks=split.tensor,
            dtype=DType.FLOAT32,
            calls_per_step=3 * step.micro_batches,
        )
        return
    padded = -(-shape.vocab // split.tensor) * split.tensor
    yield ModelCall(
        where="logits",
        collective=Collective.ALL_GATHER,
        message_bytes=step.batch // step.micro_batches * padded * dtype.itemsize,
        n_ranks=split.tensor,
        dtype=dtype,
        calls_per_step=step.micro_batches,
    )
