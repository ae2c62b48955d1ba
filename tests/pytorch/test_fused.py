"""Fused products and bounded gathers, on the native executor and over gloo."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytorch.job import Job

pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture(scope="module", params=["cpu:mc2", "cpu:gloo"])
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    with Job(2, request.param) as ranks:
        yield ranks


@pytest.mark.parametrize("check", ["products", "gradients", "gathers"])
def test_fused(job: Job, check: str) -> None:
    job.ask(f"fused.{check}")


def test_every_rank_tunes_the_same_number_of_tiles(job: Job) -> None:
    first, second = job.ask("fused.tuned")
    assert first == second
    assert first["rounds"] == 9
    assert first["tiles"] in (1, first["best"])


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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "null",
        "[" * 100_000,
        '[{"call": "matmul_all_reduce", "m": 1, "k": 1, "p": 1, "dtype": "float32", "n_ranks": 2, "tiles": 0}]',
        '[{"call": "matmul", "m": 1, "k": 1, "p": 1, "dtype": "float32", "n_ranks": 2, "tiles": 1}]',
        '[{"call": "matmul_all_reduce", "m": 1, "k": 1, "p": 1, "dtype": 5, "n_ranks": 2, "tiles": 1}]',
        '[{"call": "matmul_all_reduce", "m": true, "k": 1, "p": 1, "dtype": "float32", "n_ranks": 2, "tiles": 1}]',
    ],
)
def test_a_damaged_file_of_tiles_changes_nothing(text: str, tmp_path: Path) -> None:
    from autotune.errors import TableFormatError
    from autotune.runtime.torch import tiles

    path = tmp_path / "tiles.json"
    path.write_text(text, "utf-8")
    before = dict(tiles._known)
    if text == "{}":  # no entries, but no list either
        path.write_text(json.dumps({"a": 1}), "utf-8")
    with pytest.raises(TableFormatError):
        tiles.load_tiles(path)
    assert tiles._known == before
