"""Codecs that cannot be used, ranks that use different ones, and messages that are no encoding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ranks.cases import Call
from ranks.pool import Groups, Ranks, Step

from autotune.errors import UsageError
from autotune.kernels.communicator import Communicator
from autotune.kernels.programs import Route, load_program, lossy_names
from autotune.types import Collective, Config

C = Collective
BANKS = 40  # small messages of so many calls in a row lie apart (kernels/csrc/segment.h)
CODED = Call(collective=C.ALL_REDUCE, algorithm="ring", count=900, segment_bytes=1024, values="biased", codec="int4")


def test_what_cannot_be_encoded_is_refused_with_the_reason(alone: Communicator) -> None:
    ring = Config(algorithm="ring", segment_bytes=4096, codec="int8")
    for kind in ("int32", "int8", "uint8", "int64"):
        with pytest.raises(UsageError, match=f"int8 is for float32, float64, float16, bfloat16, not {kind}") as caught:
            alone.all_reduce(np.zeros(3, kind), config=ring)
        assert caught.value.remedy == "use the codec none"
    with pytest.raises(UsageError, match="no bound on the error of a product"):
        alone.all_reduce(np.zeros(3, np.float32), "prod", config=ring)
    with pytest.raises(UsageError, match="no messages to encode") as caught:
        alone.all_reduce(np.zeros(3, np.float32), config=replace(ring, knobs=(("exchange", "zero_copy"),)))
    assert "exchange=staged" in caught.value.remedy
    with pytest.raises(UsageError, match="codec 'int9' is not one of"):
        alone.all_reduce(np.zeros(3, np.float32), config=replace(ring, codec="int9"))


@pytest.mark.parametrize("n", [3, 5, 6, 7, 9])
def test_an_illegal_schedule_is_refused_and_legal_ones_are_named(n: int) -> None:
    with pytest.raises(UsageError, match=r"positions 0 and \d would end with different bits of block 0") as caught:
        load_program(C.ALL_REDUCE, Route("recursive_doubling", lossy=True), n, 0, 0)
    assert caught.value.remedy == f"use the codec none, or one of {', '.join(lossy_names(C.ALL_REDUCE, n))}"
    assert "recursive_doubling" not in lossy_names(C.ALL_REDUCE, n)
    assert "ring" in lossy_names(C.ALL_REDUCE, n)


def test_an_illegal_schedule_is_refused_on_all_ranks_before_anything_is_sent(groups: Groups) -> None:
    bad = replace(CODED, algorithm="recursive_doubling")
    step: Step = {"do": "call", "group": "3", "call": bad.to_json()}
    for answer in groups.ask(3, {rank: [step] for rank in range(3)}):
        assert answer.results[0]["error"] == "UsageError"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("other", ["none", "int8", "threshold(0.5)", "threshold(0.25)"])
def test_ranks_with_other_codecs_are_told_so(other: str, check: bool) -> None:
    mine = replace(CODED, codec="threshold(0.125)")
    with Ranks(2) as ranks:
        ranks.join(2, timeout_s=5.0, check=check)
        steps = {
            rank: [{"do": "call", "group": "g", "call": replace(mine, codec=codec).to_json()}]
            for rank, codec in enumerate((mine.codec, other))
        }
        for answer in ranks.ask(steps):
            assert answer.results[0]["error"] == "CommunicatorError"
            assert "disagree at call 1 in: codec. rank 0: all_reduce" in answer.errors[0]
            assert "by ring/1024/threshold(0.125); rank 1" in answer.errors[0]
            assert other == "none" or f"by ring/1024/{other}" in answer.errors[0].partition("; rank 1")[2]


@pytest.mark.parametrize("codec", ["threshold(0.5)", "int8", "int4"])
@pytest.mark.parametrize("algorithm", ["ring", "flat"])
def test_a_damaged_message_is_an_error_that_names_its_rank(codec: str, algorithm: str) -> None:
    """Rank 1 announces a message and writes none: earlier calls left NaN there, with which no encoding begins."""
    plain = replace(CODED, algorithm=algorithm, codec="none", values="nan", count=64 * 3)
    coded = replace(plain, codec=codec)
    with Ranks(3) as ranks:
        ranks.join(3, timeout_s=5.0)
        before = [{"do": "call", "group": "g", "call": plain.to_json()}] * BANKS
        then = {"group": "g", "call": coded.to_json()}
        barrier = {"do": "method", "group": "g", "method": "barrier"}
        answers = ranks.ask(
            {rank: [*before, {"do": "unwritten" if rank == 1 else "call", **then}, barrier] for rank in range(3)}
        )
        for rank, answer in enumerate(answers):
            assert answer.results[BANKS + 1]["error"] == "CommunicatorError"
            assert rank == 1 or answer.results[BANKS]["error"] == "CommunicatorError"
            for said in answer.errors:
                assert said.startswith(
                    "rank 1's message is damaged: its bytes are no encoding of the elements of rank 1: "
                )
