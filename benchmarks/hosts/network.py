"""Hosts as network namespaces: a bridge, a veth pair to each host, shaped both ways by a token bucket; or several.

In:  how many hosts, at which rate. Out: namespaces, and the words that run a command in one of them.
May not touch: what runs there. Only `ip` and `tc` (iproute2) are called, with lists of words.

The bridges have a namespace of their own, where the machine's firewall does not see them. The bucket holds 128 KiB,
since segments of 64 KiB come at once; so the first 128 KiB after a pause of a millisecond are not shaped. Addresses are
of 198.18.0.0/15, which is set apart for measuring networks (RFC 2544).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotune.errors import BackendUnavailable, UsageError

_LIMIT_S = 20.0
_NAMED = Path("/run/netns")  # where ip keeps a namespace's name
_PRIVATE = "AUTOTUNE_HOSTS_PRIVATE"  # set for the process in a user namespace of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Hosts on one switch.

    Args:
        rate_mbit: of each host's interface, each way, in 1e6 bits per second of whole Ethernet frames; None for as fast
            as the machine can.
        slow_mbit: the rate of some hosts, by number, in place of that.
        n_interfaces: of each host, eth0, eth1 ..., each at its rate and in a subnet of its own.
        burst_bytes: that an interface sends at once after a pause.
        congestion: how TCP's senders find their rate (cubic, reno, bbr ...); None is this machine's choice.
        prefix: of the namespaces' names.
    """

    n_hosts: int = 4
    rate_mbit: int | None = 1000
    slow_mbit: Mapping[int, int] = field(default_factory=dict)
    n_interfaces: int = 1
    burst_bytes: int = 128 << 10
    congestion: str | None = None
    prefix: str = "at"

    def __post_init__(self) -> None:
        if not 2 <= self.n_hosts <= 64:
            raise UsageError(f"{self.n_hosts} hosts", remedy="give 2 to 64")
        if not 1 <= self.n_interfaces <= 8:
            raise UsageError(f"{self.n_interfaces} interfaces", remedy="give 1 to 8")
        for rate in (self.rate_mbit, *self.slow_mbit.values()):
            if rate is not None and rate < 1:
                raise UsageError(f"a rate of {rate} Mbit/s", remedy="give 1 or more")
        if not set(self.slow_mbit) <= set(range(self.n_hosts)):
            raise UsageError(f"slow hosts {sorted(self.slow_mbit)} of {self.n_hosts}", remedy="hosts count from 0")
        if self.congestion is not None and not re.fullmatch(r"[a-z0-9_]{1,15}", self.congestion):
            raise UsageError(f"congestion control {self.congestion!r}", remedy="give cubic, reno or bbr")
        if not (self.prefix.isascii() and self.prefix.isalnum() and len(self.prefix) <= 16):
            raise UsageError(f"prefix {self.prefix!r}", remedy="give up to 16 letters and digits")

    @property
    def switch(self) -> str:
        """The bridges' namespace."""
        return f"{self.prefix}sw"

    def host(self, number: int) -> str:
        """A host's namespace."""
        return f"{self.prefix}h{number}"

    @property
    def names(self) -> tuple[str, ...]:
        """All namespaces."""
        return (*map(self.host, range(self.n_hosts)), self.switch)

    def subnet(self, interface: int = 0) -> str:
        return f"198.18.{interface}.0/24"

    def address(self, number: int, interface: int = 0) -> str:
        return f"198.18.{interface}.{number + 1}"

    def inside(self, number: int) -> list[str]:
        """The words before a command that is to run in a host; the command takes their process."""
        return ["ip", "netns", "exec", self.host(number)]


def up(network: Network) -> None:
    """Make the namespaces.

    Raises:
        BackendUnavailable: iproute2 is missing, namespaces are not allowed here, or some of these are there already;
            nothing new is left then.
    """
    there = [name for name in network.names if (_NAMED / name).exists()]
    if there:
        raise BackendUnavailable(
            f"network namespaces of these names are there already: {', '.join(there)}",
            remedy="python benchmarks hosts down, or another --prefix",
        )
    try:
        _make(network)
    except BaseException:
        down(network)
        raise


def _make(network: Network) -> None:
    switch = network.switch
    _run("ip", "netns", "add", switch)
    bridges = [f"br{interface}" for interface in range(network.n_interfaces)]
    for bridge in bridges:
        _run("ip", "-n", switch, "link", "add", bridge, "type", "bridge")
    for name in (*bridges, "lo"):
        _run("ip", "-n", switch, "link", "set", name, "up")
    for number in range(network.n_hosts):
        _run("ip", "netns", "add", network.host(number))
        _run("ip", "-n", network.host(number), "link", "set", "lo", "up")
        for interface in range(network.n_interfaces):
            _plug(network, number, interface)


def _plug(network: Network, number: int, interface: int) -> None:
    """Join an interface of a host to its bridge: on one bridge, a host would answer for all its addresses by each."""
    switch, host, name = network.switch, network.host(number), f"eth{interface}"
    port = f"v{number}" if interface == 0 else f"v{number}x{interface}"
    address = network.address(number, interface)
    _run("ip", "link", "add", port, "netns", switch, "type", "veth", "peer", "name", name, "netns", host)
    _run("ip", "-n", switch, "link", "set", port, "master", f"br{interface}", "up")
    _run("ip", "-n", host, "address", "add", f"{address}/24", "dev", name)
    _run("ip", "-n", host, "link", "set", name, "up")
    if network.congestion is not None:  # by route: a namespace's sysctl takes those only that the machine allows
        way = ("dev", name, "scope", "link", "src", address, "congctl", network.congestion)
        _run("ip", "-n", host, "route", "replace", network.subnet(interface), *way)
    rate = network.slow_mbit.get(number, network.rate_mbit)
    if rate is not None:
        bucket = ("tbf", "rate", f"{rate}mbit", "burst", f"{network.burst_bytes}b", "latency", "50ms")
        _run("tc", "-n", host, "qdisc", "replace", "dev", name, "root", *bucket)
        _run("tc", "-n", switch, "qdisc", "replace", "dev", port, "root", *bucket)


def down(network: Network) -> None:
    """Take the namespaces away, those that are there; processes in them keep running without a name."""
    for name in network.names:
        if (_NAMED / name).exists():
            _run("ip", "netns", "delete", name)


@contextlib.contextmanager
def made(network: Network) -> Iterator[Network]:
    """The namespaces, taken away whatever happens."""
    up(network)
    try:
        yield network
    finally:
        down(network)


def why_not() -> str | None:
    """Why namespaces cannot be made by this process; None if they can."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"needs {program} of iproute2: not found"
    probe = f"atprobe{os.getpid()}"
    try:
        _run("ip", "netns", "add", probe)
        _run("ip", "netns", "delete", probe)
    except BackendUnavailable as err:
        return f"needs network namespaces: {err.message}"
    return None


def enter_private() -> None:
    """Go on as root of a user namespace of this process's own, where nobody's root is needed and nothing is left.

    Returns at once for root. Else this program is started again inside, and does not return.

    Raises:
        BackendUnavailable: there is no `unshare` (util-linux).
    """
    if os.environ.get(_PRIVATE):
        for words in (["mount", "-t", "tmpfs", "tmpfs", "/run"], ["mkdir", str(_NAMED)]):
            _run(*words)
        del os.environ[_PRIVATE]
    elif os.geteuid() != 0:
        if shutil.which("unshare") is None:
            raise BackendUnavailable("needs root, or unshare of util-linux: not found", remedy="run it as root")
        os.environ[_PRIVATE] = "1"
        os.execvp("unshare", ["unshare", "-Urnm", "--propagation", "private", *_this_program()])


def _this_program() -> Sequence[str]:
    return [sys.executable, *sys.orig_argv[1:]]


def _run(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as err:
        raise BackendUnavailable(f"{' '.join(words)}: {err}", remedy="install iproute2") from err
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BackendUnavailable(
            f"{' '.join(words)} ended with {done.returncode} and wrote: {said}",
            remedy="run it as root, where network namespaces are allowed",
        )
