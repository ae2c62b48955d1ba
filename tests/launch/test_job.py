"""Whole runs of several ranks on one host: who prints, and what happens when somebody dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from launch.ranks_by_hand import Ended, alive, children, ended, kill, n_samples, started, until

SMALL = ("run", "--quick", "--collective", "broadcast", "--sizes", "64,4K", "--json")
LONG = ("run", "--quick", "--collective", "all_reduce", "--sizes", "8,4K,64K,1M", "--budget", "8s", "--json")


def measuring(home: Path, ranks: list[subprocess.Popen[str]]) -> None:
    """Return when rounds are being stored."""
    before = n_samples(home)

    def goes_on() -> bool:
        assert ranks[0].poll() is None, ranks[0].communicate()
        return n_samples(home) > before

    until(goes_on, "samples")


def assert_quiet(rank: Ended) -> None:
    assert (rank.code, rank.out, rank.err) == (0, "", "")


def test_doctor_says_what_carries_the_messages_of_the_job(tmp_path: Path) -> None:
    with started(tmp_path, ("doctor", "--json"), 2) as ranks:
        first, second = ended(ranks)
    assert_quiet(second)
    found = {row["subject"]: row for row in json.loads(first.out)["findings"]}
    assert found["pairs of ranks"]["message"] == "inside a host: shared memory"
    assert found["memory"]["message"].startswith("2 ranks ")


def test_rank_0_prints_and_the_others_follow_in_silence(tmp_path: Path) -> None:
    with started(tmp_path, SMALL, 2) as ranks:
        first, second = ended(ranks)
    assert first.code == 0, first.err
    document = json.loads(first.out)
    assert [cell["n_ranks"] for cell in document["cells"]] == [2, 2]
    assert "1 host(s) of 2 ranks" in first.err
    assert_quiet(second)


def test_a_rank_that_dies_is_replaced_and_the_run_goes_on(tmp_path: Path) -> None:
    with started(tmp_path, LONG, 2) as ranks:
        measuring(tmp_path, ranks)
        (victim,) = children(ranks[1].pid)
        kill(victim)
        until(lambda: children(ranks[1].pid) not in ([], [victim]), "a new child")
        first, second = ended(ranks)
    assert first.code == 0, first.err
    assert json.loads(first.out)["cells"]
    assert_quiet(second)


@pytest.mark.slow
def test_a_rank_that_hangs_is_a_failed_trial_and_the_run_goes_on(tmp_path: Path) -> None:
    with started(tmp_path, LONG, 2, AUTOTUNE_TIMEOUT="2s") as ranks:
        measuring(tmp_path, ranks)
        (victim,) = children(ranks[1].pid)
        os.kill(victim, signal.SIGSTOP)
        until(lambda: not alive(victim), "the end of a child that hangs")
        first, second = ended(ranks)
    assert first.code == 0, first.err
    assert_quiet(second)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_an_agent_that_dies_ends_the_run_on_all_ranks_and_the_same_command_continues_it(
    tmp_path: Path, dies: int
) -> None:
    with started(tmp_path, LONG, 2) as ranks:
        measuring(tmp_path, ranks)
        left = [child for rank in ranks for child in children(rank.pid)]
        kill(ranks[dies].pid)
        survivor = ended(ranks, 30)[1 - dies]
        until(lambda: not any(map(alive, left)), "the end of all children")
    assert survivor.code == 1
    assert survivor.out == ""
    error, remedy = survivor.err.splitlines()[-2:]
    assert error.startswith("error: ")
    assert f"rank {dies}" in error
    assert "the run is over" in error
    assert "the same command continues" in remedy
    kept = n_samples(tmp_path)
    with started(tmp_path, LONG, 2) as ranks:
        first, _ = ended(ranks)
    assert first.code == 0, first.err
    assert json.loads(first.out)["resumed"]
    assert n_samples(tmp_path) > kept


@pytest.mark.parametrize("interrupted", [(0, 1), pytest.param((1,), marks=pytest.mark.slow)])
def test_ctrl_c_ends_all_ranks_and_keeps_what_was_measured(tmp_path: Path, interrupted: tuple[int, ...]) -> None:
    with started(tmp_path, LONG, 2) as ranks:
        measuring(tmp_path, ranks)
        left = [child for rank in ranks for child in children(rank.pid)]
        for rank in interrupted:
            os.killpg(ranks[rank].pid, signal.SIGINT)
        first, second = ended(ranks, 30)
        until(lambda: not any(map(alive, left)), "the end of all children")
    assert first.code == 130
    assert "the same command goes on from there" in first.err
    assert "Traceback" not in first.err + second.err
    assert (second.code, second.out, second.err) == (130, "", "")


def test_more_ranks_than_were_started_are_a_clear_error_on_rank_0(tmp_path: Path) -> None:
    with started(tmp_path, ("run", "--quick", "--ranks", "3"), 2) as ranks:
        first, second = ended(ranks)
    assert first.code == 2
    assert "3 ranks are asked for, and the launcher started 2" in first.err
    assert_quiet(second)


@pytest.mark.slow
def test_bench_and_probe_work_the_same_way(tmp_path: Path) -> None:
    with started(tmp_path, ("bench", "broadcast", "--sizes", "64", "--rounds", "9", "--scaling"), 2) as ranks:
        first, second = ended(ranks)
    assert first.code == 0, first.err
    assert [line for line in first.out.splitlines() if "64" in line], first.out
    assert_quiet(second)
    with started(tmp_path, ("probe", "--json"), 2) as ranks:
        first, second = ended(ranks)
    assert first.code == 0, first.err
    assert json.loads(first.out)["fingerprint"]
    assert_quiet(second)
