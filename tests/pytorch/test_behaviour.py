"""Works, messages, groups, and what goes wrong, in one job of three ranks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytorch.job import Job

from autotune.table import save_table, shipped_table

pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with Job(3) as ranks:
        yield ranks


@pytest.mark.parametrize("check", ["works", "messages", "groups", "threads"])
def test_behaviour(job: Job, check: str) -> None:
    job.ask(f"behaviour.{check}")


def test_what_cannot_be_done_is_one_clear_error(job: Job) -> None:
    for said in job.ask("behaviour.refused"):
        words = ["BAND", "int16", "bool", "meta", "sparse", "any rank", "1 tensors for 3 ranks", "4 elements", "split"]
        assert len(said) == len(words)
        for (kind, message, remedy), word in zip(said, words, strict=True):
            assert kind == "UsageError"
            assert word in message
            assert remedy


def test_calls_in_another_order_show_both_sequences(job: Job) -> None:
    for said in job.ask("behaviour.other_order"):
        kind, message, _ = said
        assert kind == "CommunicatorError"
        assert "disagree at call 1 in: count" in message
        assert "rank 0: 1 all_reduce(RedOpType.SUM float32 x 4)" in message
        assert "rank 1: 1 all_reduce(RedOpType.SUM float32 x 9)" in message
        assert "rank 2: 1 all_reduce(RedOpType.SUM float32 x 9)" in message


def test_groups_made_in_another_order_are_an_error_that_names_their_members() -> None:
    with Job(3) as ranks:
        said = " ".join(map(str, ranks.ask("behaviour.another_order")))
    assert "members: rank 0" in said
    assert "0, 1" in said
    assert "0, 2" in said
    assert "in the same order on every rank" in said


def test_errors_of_asynchronous_calls_come_at_the_wait(job: Job) -> None:
    for kind, message, _ in job.ask("behaviour.later_error"):
        assert kind == "CommunicatorError"
        assert "count" in message


def test_a_time_out_shows_every_ranks_last_calls(job: Job) -> None:
    first, behind, last = job.ask("behaviour.absent")
    for said in (first, last):
        assert said[0] == "CommunicatorError"
        assert "no sign of rank" in said[1]
        assert "calls made: rank 0 2, rank 1 1, rank 2 2" in said[1]
        assert "rank 0: 1 all_reduce" in said[1]
        assert "rank 2: 1 all_reduce" in said[1]
    assert "no sign of rank 1" in behind[1]


def test_another_setting_is_an_error_on_all_ranks(job: Job) -> None:
    started = time.monotonic()
    said = job.ask("behaviour.differing", variable="AUTOTUNE_STAGING", value="4MiB")
    assert time.monotonic() - started < 30
    assert len({message for _, message, _ in said}) == 1
    kind, message, _ = said[0]
    assert kind == "CommunicatorError"
    assert "AUTOTUNE_STAGING" in message
    assert "rank 1 on " in message
    assert "4194304" in message


def test_a_setting_that_cannot_be_read_is_told_to_all(job: Job) -> None:
    said = job.ask("behaviour.differing", variable="AUTOTUNE_CHECK", value="perhaps")
    assert [kind for kind, _, _ in said] == ["CommunicatorError", "UsageError", "CommunicatorError"]
    for _, message, _ in said:
        assert "AUTOTUNE_CHECK is 'perhaps'" in message


def test_another_version_is_an_error_on_all_ranks(job: Job) -> None:
    for kind, message, _ in job.ask("behaviour.other_version"):
        assert kind == "CommunicatorError"
        assert "autotune version" in message
        assert "rank 2 on " in message
        assert "0.0.1" in message


def test_a_missing_rank_is_named(job: Job) -> None:
    said = job.ask("behaviour.one_missing")
    assert said[1] == []
    for kind, message, _ in (said[0], said[2]):
        assert kind == "CommunicatorError"
        assert "rank(s) 1 did not join" in message


def test_the_table_of_rank_0_is_the_groups(job: Job, tmp_path: Path) -> None:
    shipped = shipped_table()
    rows = [
        dataclasses.replace(row, config=dataclasses.replace(row.config, segment_bytes=12345 * 4))
        for row in shipped.defaults.rows
    ]
    table = dataclasses.replace(shipped, defaults=dataclasses.replace(shipped.defaults, rows=tuple(rows)))
    path = tmp_path / "table.json"
    save_table(table, path)
    said = job.ask("behaviour.table_of_rank_0", path=str(path))
    assert len(set(said)) == 1
    assert "49380" in said[0] or "48.2" in said[0]


def test_a_destroyed_group_finishes_what_was_issued_and_says_that_it_is_closed(job: Job) -> None:
    for kind, message, _ in job.ask("behaviour.left"):
        assert kind == "UsageError"
        assert "closed" in message


@pytest.mark.parametrize("destroys", [True, False])
def test_a_job_ends_cleanly_whether_it_destroys_its_groups_or_not(destroys: bool) -> None:
    with Job(2) as job:
        job.ask("ending.start", destroys=destroys)
        assert job.exits() == [0, 0]
        for rank in range(2):
            assert "leaked" not in job.said(rank)
            assert "Traceback" not in job.said(rank)


def test_nothing_is_left_of_a_destroyed_group_of_another_backend(job: Job) -> None:
    """A thread of gloo that drops a tensor while the interpreter ends would take the process with it."""
    for left, threads in job.ask("ending.destroyed"):
        assert not left
        assert threads <= 0


@pytest.mark.parametrize("destroys", [True, False])
def test_a_job_over_gloo_ends_cleanly_with_calls_under_way(destroys: bool) -> None:
    with Job(2, "gloo") as job:
        job.ask("ending.under_way", destroys=destroys)
        assert job.exits() == [0, 0]
        assert not any("terminate" in job.said(rank) for rank in range(2))


def test_the_death_of_a_rank_is_an_error_on_the_others() -> None:
    with Job(3) as job:
        job.ask("ending.pid")
        job.kill(1)
        for rank, said in enumerate(job.ask("ending.one_more", but=(1,))):
            if rank != 1:
                assert said[0] == "CommunicatorError"
                assert "rank 1" in said[1]
