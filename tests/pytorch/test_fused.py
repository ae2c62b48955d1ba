"""Fused products and bounded gathers, on the native executor and over gloo."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytorch.job import Job

pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture(scope="module", params=["cpu:mc2", "cpu:gloo"])
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    with Job(2, request.param) as ranks:
        yield ranks


@pytest.mark.parametrize("check", ["products", "gradients", "gathers", "compressed_gathers", "by_the_vendor"])
def test_fused(job: Job, check: str) -> None:
    job.ask(f"fused.{check}")


def test_every_rank_tunes_the_same_number_of_tiles(job: Job) -> None:
    first, second = job.ask("fused.tuned")
    assert first == second
    assert f"{first['tiles']} tiles" in ("1 tiles", first["best"])
    assert first["unfused_us"] > 0
    assert first["of"] > 0


def test_what_cannot_be_done_is_one_clear_error(job: Job) -> None:
    for said in job.ask("fused.refused"):
        words = [
            *("is no product of rows", "is no product of rows", "tiles is 0", "x has 3 dimensions"),
            *("5 rows are not a multiple of 2", "above max_bytes 3", "one head of 2 tokens", "keys (1, 2, 3)"),
            *("'product' is no fused call", "at least 9 rounds", "holds no numbers of tiles"),
        ]
        assert len(said) == len(words)
        for message, word in zip(said, words, strict=True):
            assert word in message
