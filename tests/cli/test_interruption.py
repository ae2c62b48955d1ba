"""Ctrl-C and kill -9 in the middle of a run: the same command goes on, and no stored sample is lost."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from cli.session import TIMEOUT_S, Shell

WORDS = ("run", "--collective", "all_reduce", "--sizes", "1K,16K,256K,1M", "--ranks", "2")
HALF_WAY = "[4/8] all_reduce bfloat16 sum, 2 ranks"


def wait_for_half(process: subprocess.Popen[str]) -> None:
    """Until the cells of the first type are through and those of the second begin."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(HALF_WAY):
            return
    pytest.fail("the run ended before its second half")


def assert_goes_on(shell: Shell, *, least: int = 4 * 9) -> None:
    before = shell.samples()
    assert sum(map(len, before.values())) >= least
    done = shell(*WORDS, "--json")
    assert done.code == 0, done.err
    assert "continuing session 1" in done.err
    document = done.document
    assert (document["resumed"], document["session_id"]) == (True, 1)
    assert (len(document["cells"]), document["cells_not_measured"]) == (8, [])
    after = shell.samples()
    assert all(set(samples) <= set(after[trial_id]) for trial_id, samples in before.items())
    assert sum(map(len, after.values())) > sum(map(len, before.values()))
    with shell.store() as store:
        assert [session.state.value for session in store.sessions()] == ["finished"]


def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(shell: Shell) -> None:
    with shell.started(*WORDS) as process:
        wait_for_half(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the ranks get it too
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted; the same command goes on from there"
    assert "Traceback" not in err
    assert "all_reduce float32 sum" in out.splitlines()
    assert out.splitlines()[-1] == "next    the same command goes on where this one stopped"
    with shell.store() as store:
        assert [session.state.value for session in store.sessions()] == ["interrupted"]
        assert all(trial.state.value == "ok" for trial in store.trials())
    assert len(shell.tables) == 1
    assert_goes_on(shell)


def test_kill_9_keeps_what_was_measured_and_the_same_command_goes_on(shell: Shell) -> None:
    with shell.started(*WORDS) as process:
        wait_for_half(process)
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGKILL
    with shell.store() as store:
        assert [session.state.value for session in store.sessions()] == ["running"]
    assert shell.tables == []
    assert_goes_on(shell, least=9)  # less than the half: the last quarter of a second of measuring was not stored


def test_ctrl_c_before_anything_was_measured_says_the_same(shell: Shell) -> None:
    with shell.started(*WORDS) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "reading the host\n"
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted; the same command goes on from there"
    assert ("Traceback" in err, out) == (False, "")
