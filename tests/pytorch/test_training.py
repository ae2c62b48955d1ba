"""DistributedDataParallel, FSDP2, gradient hooks and calls placed by hand, in one job of two ranks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytorch.job import Job

pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with Job(2) as ranks:
        yield ranks


@pytest.mark.parametrize("check", ["data_parallel", "compressed", "sharded", "calls"])
def test_training(job: Job, check: str) -> None:
    job.ask(f"training.{check}")


def test_words_that_cannot_be_meant_are_refused(job: Job) -> None:
    words = [
        "topo 'star'",
        "without an error budget",
        "codec 'zip'",
        "overlap is 0",
        "only all_reduce",
        "topo 'tree'",
        "'mean'",
        "5 rows",
        "int16",
    ]
    for said in job.ask("training.refused_calls"):
        assert [kind for kind, _, _ in said] == ["UsageError"] * len(words)
        for (_, message, remedy), word in zip(said, words, strict=True):
            assert word in message
            assert remedy


def test_a_changed_input_is_found_with_autotune_check() -> None:
    with Job(2, AUTOTUNE_CHECK="1") as job:
        other, own = job.ask("training.changed_input")
        assert own[0] == other[0] == "CommunicatorError"
        assert "rank 1 changed the input of all_gather" in own[1]
        assert "rank 1" in other[1]
