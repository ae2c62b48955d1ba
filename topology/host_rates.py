"""How fast the link of each host is, and which hosts end the order of ranks because theirs is slow.

In:  what a probe measured between hosts; what each rank says of its own host when a group meets. Out: a file in the
user's cache, and numbers of hosts. May not touch: clocks, connections. Standard library only.

A probe inside a launcher's job measures, and every host keeps its own figure until the next boot. When ranks of several
hosts meet, each brings its host's, and all ranks order the hosts by all of them: so the order is the same everywhere.
Figures are compared in halvings, since two probes never measure quite the same.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from .cached_facts import keep, kept

ENVIRONMENT = "slow_hosts"
"""The name in a table's environment under which the hosts that stand last are told, in words."""


def late_hosts(rates_gb_per_s: Sequence[float | None]) -> dict[int, int]:
    """Hosts that stand last, in their order there: by how many halvings each is slower than the median host.

    Args:
        rates_gb_per_s: by host, 1e9 bytes per second; None where nobody measured.
    """
    known = {host: rate for host, rate in enumerate(rates_gb_per_s) if rate is not None}
    if len(known) < 3:  # a pair of hosts has one link, which is either's
        return {}
    usual = statistics.median_high(known.values())
    halvings = {host: round(math.log2(usual / rate)) for host, rate in known.items()}
    return {host: times for host, times in sorted(halvings.items(), key=lambda item: item[1]) if times > 0}


def late_words(names: Sequence[str], late: Mapping[int, int]) -> str:
    """`late_hosts` for people: ``hostd (about 1/4 of the usual rate)``."""
    return ", ".join(f"{names[host]} (about 1/{1 << times} of the usual rate)" for host, times in late.items())


def keep_rate(cache_dir: Path, host: str, gb_per_s: float) -> None:
    """Keep a host's figure until its next boot.

    Args:
        host: a word that no other host has.

    Raises:
        ProbeError: the folder cannot be written.
    """
    document = {"schema_version": 1, "host": _hashed(host), "gb_per_s": gb_per_s}
    keep(cache_dir, _file_name(host), document, what="the rate of this host's link")


def kept_rate(cache_dir: Path, host: str) -> float | None:
    """What was kept of a host; None where there is none, or a file that is damaged or another host's."""
    document = kept(cache_dir, _file_name(host))
    if (document.get("schema_version"), document.get("host")) != (1, _hashed(host)):
        return None
    rate = document.get("gb_per_s")
    return rate if isinstance(rate, float) and 0.0 < rate < math.inf else None


def _file_name(host: str) -> str:
    return f"link-{_hashed(host)[:16]}.json"


def _hashed(host: str) -> str:
    """The machine's id is in a host's word, and is not to be shown to others (machine-id(5))."""
    return hashlib.sha256(f"autotune host {host}".encode()).hexdigest()[:32]
