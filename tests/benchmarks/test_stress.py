"""The stress test's own judgement, on planted faults; and, slowly, the stress itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
import stress

STRESS = stress.__file__
VICTIM = stress.Episode(
    seed=1, number=2, n=3, calls=10, staging_bytes=1 << 20, check=False, victim=1, after_s=0.1
)  # pids 10, 11, 12
DEATH: stress.Answer = {
    "error": "rank 0: barrier waits for rank 1: rank 1 (pid 11) died (reported by rank 2)",
    "calls": 4,
}
WELL: stress.Answer = {"calls": 10}


def judged(*answers: stress.Answer, victim: int | None = 1) -> None:
    episode = VICTIM if victim is not None else stress.drawn(1, 0, 1)
    stress.judge(episode, answers, [10, 11, 12], [0, signal.SIGKILL if victim is not None else 0, 0])


def test_survivors_may_finish_or_name_the_dead_rank() -> None:
    judged(WELL, {}, DEATH)
    judged(WELL, WELL, WELL)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ((WELL, {}, {"error": "no sign of rank 1 for 20 s", "calls": 4}), "rank 2, call 4: no sign of rank 1"),
        ((WELL, {}, {"wrong": "call 3: byte 0 of 8 is wrong"}), "rank 2, call 3: byte 0"),
        (({}, {}, DEATH), "rank 0 ended with status 0"),
    ],
)
def test_anything_else_is_a_failure(answers: tuple[stress.Answer, ...], words: str) -> None:
    with pytest.raises(stress.Failed, match=words):
        judged(*answers)


def test_an_error_without_a_victim_is_a_failure() -> None:
    assert stress.drawn(1, 0, 1).victim is None
    with pytest.raises(stress.Failed, match="died"):
        judged(DEATH, victim=None)


def test_what_is_left_is_seen() -> None:
    before = stress.held()
    fd = os.memfd_create("autotune")
    try:
        os.ftruncate(fd, 4096)
        assert "holds" in stress.growth(before)
        assert stress.holders_of(os.fstat(fd).st_ino) == [str(os.getpid())]
        assert stress.holders_of(0) == []
    finally:
        os.close(fd)
    assert stress.growth(before) == ""


def test_a_seed_decides_an_episode() -> None:
    assert stress.drawn(5, 3, 8) == stress.drawn(5, 3, 8)
    assert stress.drawn(5, 3, 8) != stress.drawn(5, 4, 8)


def run(*words: str, planted: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, STRESS]
    if planted:
        folder = os.path.dirname(STRESS)
        script = f"import sys; sys.path.insert(0, {folder!r})\nimport stress, stress_calls\n{planted}\n"
        command = [sys.executable, "-P", "-c", script + "sys.exit(stress.main(sys.argv[1:]))"]
    return subprocess.run([*command, *words], capture_output=True, text=True, timeout=200)


PLANTED = {
    "wrong": (
        "right = stress_calls.expected\n"
        "stress_calls.expected = lambda *a, **k: [v if v is None else v + v.dtype.type(1) for v in right(*a, **k)]",
        r"byte \d+ of \d+ is wrong by Call\(collective=",
    ),
    "leak": ("import os\nplay = stress.play\nstress.play = lambda *a: (play(*a), os.dup(0))", "holds .* before"),
    "crash": ("stress.play = lambda *a: os.abort()\nimport os", r"rank \d ended with status"),
    "hang": (
        "import signal\nstress.WATCHDOG_S = 1.0\nstress.play = lambda *a: signal.pause()",
        r"no answer from ranks \[",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_and_printed_with_its_seed(fault: str) -> None:
    planted, words = PLANTED[fault]
    ended = run("--seed", "11", "--seconds", "5", "--most-ranks", "3", planted=planted)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert re.search(words, ended.stdout), ended.stdout
    assert "FAILED: seed 11, Episode(seed=11, number=0" in ended.stdout
    assert "stress.py --seed 11 --episode 0 --most-ranks 3" in ended.stdout


def test_one_episode_again() -> None:
    ended = run("--seed", "4", "--episode", "1", "--most-ranks", "2")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 episodes" in ended.stdout


def test_words_that_cannot_be_meant() -> None:
    assert run("--most-ranks", "0").returncode == 2
    assert run("--episode", "3").returncode == 2


@pytest.mark.slow
def test_twenty_seconds() -> None:
    ended = run("--seconds", "20")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "all right, nothing left" in ended.stdout
