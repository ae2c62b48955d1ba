"""Whole runs over hosts: a scaling table; and where something goes wrong, the run goes on, or ends on all ranks with an
error that names the rank and its host. Nothing is left behind.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch.on_hosts import PORT, Hosts, hosts, rank_of, ranks
from launch.ranks_by_hand import Ended, alive, children, ended, kill, n_samples, until

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs torch, on whose store hosts meet: not installed"
)
pytestmark = [pytest.mark.slow, needs_torch]

RUN = ("run", "--quick", "--collective", "all_reduce", "--sizes", "4K,64K", "--ranks", "2", "--budget", "3m", "--json")
SMALL = ("run", "--quick", "--collective", "broadcast", "--sizes", "1K", "--ranks", "2", "--budget", "3m", "--json")
NOTICED_S = 75.0  # within which a host that is not reached any more is noticed: half a minute, on busy cores


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts of one rank; no process of a test's may be left in its folder, nor a namespace."""
    with hosts(tmp_path, 1, 1) as made:
        names = [Path("/run/netns") / name for name in made.network.names]
        yield made
        until(lambda: not of_home(tmp_path), "the end of all processes", 30)
    assert not any(map(Path.exists, names))


def of_home(home: Path) -> list[int]:
    """Processes that work in a test's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            try:
                if (entry / "cwd").resolve() == home.resolve():
                    found.append(int(entry.name))
            except OSError:  # it has just ended
                continue
    return found


def measuring(home: Path, started: list[subprocess.Popen[str]]) -> None:
    """Return when rounds are being stored."""
    before = n_samples(home)
    until(lambda: n_samples(home) > before or started[0].poll() is not None, "samples")
    assert started[0].poll() is None, started[0].communicate()


def assert_done(first: Ended, second: Ended) -> None:
    assert first.code == 0, first.err
    assert json.loads(first.out)["cells"]
    assert (second.code, second.out, second.err) == (0, "", "")


def assert_lost(rank: Ended, name: str) -> None:
    """It ended with an error that names another rank, and its host where rank 0 says it."""
    assert rank.code == 1, rank.err
    assert rank.out == ""
    error, remedy = rank.err.splitlines()[-2:]
    assert error.startswith("error: ")
    assert name in error
    assert "the same command continues" in remedy


@pytest.mark.parametrize("how", ["killed", "hung"])
def test_a_rank_on_another_host_is_replaced_and_the_run_goes_on(two: Hosts, tmp_path: Path, how: str) -> None:
    with ranks(two, tmp_path, RUN, AUTOTUNE_TIMEOUT="3s") as started:
        measuring(tmp_path, started)
        (victim,) = children(started[1].pid)
        os.kill(victim, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        until(lambda: not alive(victim), "the end of the rank")
        first, second = ended(started)
    assert_done(first, second)


def test_a_link_that_is_cut_for_ten_seconds_costs_nothing(two: Hosts, tmp_path: Path) -> None:
    with ranks(two, tmp_path, RUN) as started:
        measuring(tmp_path, started)
        two.ip(1, "link", "set", "eth0", "down")
        with pytest.raises(subprocess.TimeoutExpired):  # nobody ends meanwhile
            started[0].wait(10)
        assert started[1].poll() is None
        two.ip(1, "link", "set", "eth0", "up")
        first, second = ended(started)
    assert_done(first, second)


def test_a_link_that_is_cut_for_good_ends_the_run_and_the_same_command_continues_it(two: Hosts, tmp_path: Path) -> None:
    with ranks(two, tmp_path, RUN) as started:
        measuring(tmp_path, started)
        left = [child for rank in started for child in children(rank.pid)]
        two.ip(1, "link", "set", "eth0", "down")
        first, second = ended(started, NOTICED_S)
        until(lambda: not any(map(alive, left)), "the end of all children")
    assert_lost(first, "rank 1 on hostb")
    assert_lost(second, "rank 0")
    two.ip(1, "link", "set", "eth0", "up")
    with ranks(two, tmp_path, RUN) as started:
        first, second = ended(started)
    assert_done(first, second)
    assert json.loads(first.out)["resumed"]


def test_a_host_that_disappears_is_named(two: Hosts, tmp_path: Path) -> None:
    """Its processes and its interface end at once, and no packet says so."""
    with ranks(two, tmp_path, RUN) as started:
        measuring(tmp_path, started)
        left = children(started[0].pid)
        two.ip(1, "link", "set", "eth0", "down")
        for pid in (*children(started[1].pid), started[1].pid):
            kill(pid)
        first = ended(started[:1], NOTICED_S)[0]
        until(lambda: not any(map(alive, left)), "the end of all children")
    assert_lost(first, "rank 1 on hostb")


@pytest.mark.parametrize("dies", [0, 1])
def test_an_agent_that_dies_ends_the_run_and_a_restart_continues_it(two: Hosts, tmp_path: Path, dies: int) -> None:
    with ranks(two, tmp_path, RUN) as started:
        measuring(tmp_path, started)
        left = [child for rank in started for child in children(rank.pid)]
        kill(started[dies].pid)
        survivor = ended(started, 30)[1 - dies]
        until(lambda: not any(map(alive, left)), "the end of all children")
    assert_lost(survivor, f"rank {dies} on hostb" if dies else "rank 0")
    kept = n_samples(tmp_path)
    with ranks(two, tmp_path, RUN) as started:
        first, second = ended(started)
    assert_done(first, second)
    assert json.loads(first.out)["resumed"]
    assert n_samples(tmp_path) > kept


RUBBISH = """
import os, socket, sys
for port in map(int, sys.argv[2:]):
    for length in (1, 64, 100_000):
        with socket.create_connection((sys.argv[1], port), 10) as stranger:
            try:
                stranger.sendall(os.urandom(length))
            except OSError:
                pass  # it hung up
"""


def test_a_rank_that_is_late_is_waited_for_and_rubbish_on_the_ports_changes_nothing(two: Hosts, tmp_path: Path) -> None:
    """While rank 0 waits, a stranger on the other host talks to whatever listens on rank 0's."""
    with ranks(two, tmp_path, SMALL, leave_out=[1]) as started:
        until(lambda: len(ports_of(started[0].pid)) > 1, "the ports of torch's store and of rank 0")
        ports = ports_of(started[0].pid)
        words = [*two.inside(1), sys.executable, "-c", RUBBISH, two.address(0), *map(str, ports)]
        subprocess.run(words, check=True, timeout=60, cwd="/")
        started.append(rank_of(two, tmp_path, SMALL, 1))
        first, second = ended(started)
    assert_done(first, second)
    assert f"closed a connection from {two.address(1)}: it did not know the run's secret" in first.err


def ports_of(pid: int) -> list[int]:
    """TCP ports on which somebody listens on a rank's host; none before it is there and serves torch's store."""
    found = listening(pid)
    return found if int(PORT) in found else []


def listening(pid: int) -> list[int]:
    """TCP ports on which somebody listens in the network namespace of a process."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found.add(int(words[1].rpartition(":")[2], 16))
    return sorted(found)


def test_a_rank_of_another_world_is_an_error_on_all(two: Hosts, tmp_path: Path) -> None:
    with ranks(two, tmp_path, SMALL, leave_out=[1]) as started:
        started.append(rank_of(two, tmp_path, SMALL, 1, per_host=(1, 1, 1)))
        both = ended(started)
    for rank in both:
        assert rank.code == 1, rank.err
        assert "rank 1 on hostb was started as one of 3 ranks, and rank 0 as one of 2" in rank.err
        assert "Traceback" not in rank.err


def test_a_rank_of_another_version_is_an_error_on_all(two: Hosts, tmp_path: Path) -> None:
    own = tmp_path / "other"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import autotune\nautotune.__version__ = '99.0'\n")
    paths = os.pathsep.join([str(own), *filter(None, [os.environ.get("PYTHONPATH")])])
    with ranks(two, tmp_path, SMALL, leave_out=[1]) as started:
        started.append(rank_of(two, tmp_path, SMALL, 1, PYTHONPATH=paths))
        both = ended(started)
    for rank in both:
        assert rank.code == 1, rank.err
        assert "rank 1 on hostb has autotune 99.0, and rank 0 has" in rank.err


def test_a_rank_that_never_comes_is_named(two: Hosts, tmp_path: Path) -> None:
    with ranks(two, tmp_path, SMALL, leave_out=[1], AUTOTUNE_TIMEOUT="1s") as started:
        (first,) = ended(started)
    assert first.code == 1
    assert "rank(s) 1 did not come within 61 s" in first.err


def test_hosts_whose_names_are_the_loopbacks_find_each_other(two: Hosts, tmp_path: Path) -> None:
    """Each host's own name is 127.0.1.1 there; torch's gloo would take it."""
    with ranks(two, tmp_path, (*SMALL, "--backend", "torch"), MASTER_ADDR="hosta") as started:
        first, second = ended(started)
    assert_done(first, second)


@pytest.mark.parametrize(
    ("devices", "says"),
    [(None, "hosta-hostb: sockets/eth0"), ("eth9", "AUTOTUNE_NET_DEVICES names 'eth9', which host")],
)
def test_doctor_says_what_carries_between_hosts_or_why_nothing_does(
    two: Hosts, tmp_path: Path, devices: str | None, says: str
) -> None:
    more = {} if devices is None else {"AUTOTUNE_NET_DEVICES": devices}
    with ranks(two, tmp_path, ("doctor", "--json"), **more) as started:
        first, second = ended(started)
    assert (second.code, second.out, second.err) == (0, "", "")
    (pairs,) = [row for row in json.loads(first.out)["findings"] if row["subject"] == "pairs of ranks"]
    assert says in pairs["message"]
    assert (pairs["severity"] == "error") == (devices is not None)
    assert first.code == 1 or devices is None


SCALING = ("bench", "all_reduce", "--sizes", "1K,256K", "--rounds", "9", "--scaling")


def test_scaling_over_hosts_says_time_rates_and_the_share_of_the_slowest_link(tmp_path: Path) -> None:
    with hosts(tmp_path, 2, 1) as made, ranks(made, tmp_path, SCALING) as started:
        first, *others = ended(started)
    assert first.code == 0, first.err
    assert {(rank.code, rank.out, rank.err) for rank in others} == {(0, "", "")}
    rows = [line.split() for line in first.out.splitlines() if not line.startswith("#")]
    assert rows[0][-6:] == ["time", "us", "algbw", "busbw", "link", "speed-up"]
    assert [row[-7] for row in rows[1:]] == ["2", "1+1", "1+2"] * 2, textwrap.indent(first.out, "    ")
    for row in rows[1:]:
        time_us, algbw, busbw, share = map(float, row[-6:-2])
        assert min(time_us, algbw, busbw, share) >= 0
        assert row[-2] == "%"  # known, since links are measured first
