"""Hosts as network namespaces: made, shaped, used and taken away whatever happens."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hosts.launch import run_ranks
from hosts.network import Network, down, made, up, why_not

from autotune.errors import BackendUnavailable, TrialFailed, UsageError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
REASON = why_not() if os.geteuid() == 0 else "needs root, to make network namespaces"
needs_hosts = pytest.mark.skipif(REASON is not None, reason=REASON or "")

SENDER = """
import os, socket, time
rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
payload = bytes(1 << 20)
if rank == 0:
    with socket.create_server((os.environ["MASTER_ADDR"], port)) as door:
        door.settimeout(20)
        link, _ = door.accept()
        with link:
            link.recv(1)
            start, left = time.monotonic(), 4 << 20
            while left:
                left -= len(link.recv(1 << 16))
            print(time.monotonic() - start)
elif rank == 1:
    while True:
        try:
            link = socket.create_connection((os.environ["MASTER_ADDR"], port), 20)
            break
        except ConnectionRefusedError:
            pass
    with link:
        for _ in range(4):
            link.sendall(payload)
        link.sendall(b"x")
"""


@pytest.fixture
def network() -> Iterator[Network]:
    """Two hosts at 100 Mbit/s with names of this test's own; none of them may be left."""
    network = Network(n_hosts=2, rate_mbit=100, prefix=f"att{os.getpid()}")
    yield network
    left = namespaces() & set(network.names)
    down(network)
    assert not left


def namespaces() -> set[str]:
    folder = Path("/run/netns")
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


def running(words: str) -> list[str]:
    """Processes with these words in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
        except OSError:
            continue
        if words.encode() in line:
            found.append(entry.name)
    return found


@needs_hosts
def test_ranks_know_each_other_and_links_are_shaped(network: Network) -> None:
    with made(network):
        said = run_ranks(network, [sys.executable, "-c", SENDER], within_s=30)
    assert (4 << 20) / 12.5e6 * 0.9 < float(said) < 10.0  # 0.34 s at 100 Mbit/s, less what a bucket gives at once


CONNECTED = """
import os, socket
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(address) as door:
        door.settimeout(20)
        link, _ = door.accept()
        own = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1))
        print(own.decode(), link.recv(16).decode())
else:
    while True:
        try:
            link = socket.create_connection(address, 20)
            break
        except ConnectionRefusedError:
            pass
    link.sendall(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1)))
"""


@needs_hosts
def test_both_ends_of_a_connection_find_their_rate_as_told(network: Network) -> None:
    with made(replace(network, congestion="reno")):
        said = run_ranks(network, [sys.executable, "-c", CONNECTED], within_s=30)
    assert said.split() == ["reno", "reno"]


BY_BOTH = """
import os, socket
if os.environ["RANK"] == "0":
    doors = [socket.create_server((f"198.18.{subnet}.1", 5000)) for subnet in range(2)]
    for door in doors:
        door.settimeout(20)
        link, (peer, _) = door.accept()
        print(peer, link.recv(1).decode())
    with open("/proc/net/arp") as neighbours:
        print(len({line.split()[3] for line in neighbours if line.startswith("198.18.")}))
else:
    for subnet in range(2):
        while True:
            try:
                link = socket.create_connection((f"198.18.{subnet}.1", 5000), 20)
                break
            except ConnectionRefusedError:
                pass
        link.sendall(str(subnet).encode())
"""


@needs_hosts
def test_hosts_with_two_interfaces_reach_each_other_by_both(network: Network) -> None:
    """Each address is that of an interface of its own: a host on one bridge answers for both by either."""
    with made(replace(network, n_interfaces=2)):
        said = run_ranks(network, [sys.executable, "-c", BY_BOTH], within_s=30)
    assert said.split() == ["198.18.0.2", "0", "198.18.1.2", "1", "2"]


@needs_hosts
def test_a_rank_that_fails_ends_the_others(network: Network) -> None:
    marker = f"rank of test {os.getpid()}"
    code = f"import os, signal, sys; '{marker}'; sys.exit('no luck') if os.environ['RANK'] == '1' else signal.pause()"
    with made(network), pytest.raises(TrialFailed, match="rank 1 ended with 1 and wrote: no luck"):
        run_ranks(network, [sys.executable, "-c", code], within_s=30)
    assert running(marker) == [str(os.getpid())] or not running(marker)


@needs_hosts
def test_ranks_that_hang_are_ended(network: Network) -> None:
    marker = f"hanging rank of test {os.getpid()}"
    code = f"import signal; '{marker}'; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on'); signal.pause()"
    with made(network), pytest.raises(TrialFailed, match=r"ranks \[0, 1\] did not end within 1 s"):
        run_ranks(network, [sys.executable, "-c", code], within_s=1)
    assert not running(marker)


@needs_hosts
def test_hosts_that_are_there_already_are_not_made_twice(network: Network) -> None:
    with made(network):
        with pytest.raises(BackendUnavailable, match="are there already: ") as caught:
            up(network)
        assert "hosts down" in caught.value.remedy
        assert set(network.names) <= namespaces()


@pytest.mark.parametrize(
    "words",
    [
        {"n_hosts": 1},
        {"n_hosts": 65},
        {"rate_mbit": 0},
        {"n_interfaces": 0},
        {"n_interfaces": 9},
        {"congestion": "a b"},
        {"prefix": "a/b"},
        {"prefix": ""},
    ],
)
def test_networks_that_cannot_be_meant(words: dict[str, int | str]) -> None:
    with pytest.raises(UsageError):
        Network(**words)  # type: ignore[arg-type] # wrong on purpose


@needs_hosts
def test_the_command_runs_something_in_each_host_and_hands_on_its_failure() -> None:
    before = namespaces()
    program = [sys.executable, str(BENCHMARKS), "hosts", "run", "--hosts", "3", "--rate", "0", "--"]
    # At once: three ranks write to one pipe.
    code = "import json, os; os.write(1, json.dumps([os.environ['RANK'], os.environ['WORLD_SIZE']]).encode() + b'\\n')"
    good = subprocess.run(
        [*program, sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert sorted(json.loads(line) for line in good.stdout.splitlines()) == [["0", "3"], ["1", "3"], ["2", "3"]]
    bad = subprocess.run([*program, "false"], capture_output=True, text=True, timeout=60, check=False)
    assert bad.returncode == 1
    assert "error: rank 0 ended with 1" in bad.stderr
    assert namespaces() == before


@needs_hosts
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: not installed")
def test_fidelity_measures_and_prices() -> None:
    words = ["--rounds", "1", "--algorithms", "ring,direct", "--sizes", "1MiB,2MiB"]
    program = [sys.executable, str(BENCHMARKS / "fidelity_hosts.py"), *words]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr  # the machine's business
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows if row[0] in ("ring", "direct")] == [
        ["ring", "1MiB"],
        ["ring", "2MiB"],
        ["direct", "1MiB"],
        ["direct", "2MiB"],
    ]
    assert "held out, from 1 MiB" in done.stdout
