"""mc2 against gloo: every collective, element type, shape and layout, in one job of three ranks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytorch.job import Job

pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with Job(3) as ranks:
        yield ranks


@pytest.mark.parametrize(
    "check",
    [
        "all_reduce",
        "average",
        "reduce_and_scatter",
        "moves",
        "exchanges",
        "coalesced",
        "objects",
        "functional",
    ],
)
def test_as_gloo_does(job: Job, check: str) -> None:
    job.ask(f"collectives.{check}")
