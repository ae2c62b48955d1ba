"""What `doctor` says of a launcher's job: the findings of every host, and what carries each pair's messages.

In:  a job. Out: rows of severity, subject, message, remedy, the worst first. May not touch: the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import AutotuneError

if TYPE_CHECKING:
    from ..launch import Job
    from ..settings import Settings

Row = tuple[str, str, str, str | None]
"""severity, subject, message, remedy."""

_WORST_FIRST = ("error", "warning", "ok")


def own_rows(settings: Settings, n_ranks: int | None) -> list[Row]:
    """This host's findings.

    Raises:
        ProbeError: the machine could not be read.
    """
    from ..doctor import diagnose

    found = diagnose(settings=settings, n_ranks=n_ranks)
    return [(finding.severity.value, finding.subject, finding.message, finding.remedy) for finding in found]


def job_rows(job: Job, settings: Settings, n_ranks: int | None) -> list[Row]:
    """The findings of all hosts of a job; what only some hosts say is said with their names.

    Args:
        n_ranks: the most ranks on a host; None for those that were started.

    Raises:
        AutotuneError: a host could not be looked at.
        AgentLost: an agent ended.
    """
    names = [job.host_name(host) for host in job.hosts]
    n_ranks = n_ranks or max(map(len, job.hosts))
    said: dict[Row, list[str]] = {}
    for name, told in zip(names, job.ask_hosts("doctor", ranks=n_ranks), strict=True):
        for row in told if isinstance(told, list) else ():
            assert isinstance(row, list)
            severity, subject, message, remedy = row
            own = (str(severity), str(subject), str(message), None if remedy is None else str(remedy))
            said.setdefault(own, []).append(name)
    rows = [_of_hosts(row, hosts, len(names)) for row, hosts in said.items()]
    return sorted([*rows, _transports(job, settings)], key=lambda row: _WORST_FIRST.index(row[0]))


def _of_hosts(row: Row, hosts: Sequence[str], n_hosts: int) -> Row:
    severity, subject, message, remedy = row
    return row if len(hosts) == n_hosts else (severity, subject, f"{', '.join(hosts)}: {message}", remedy)


def _transports(job: Job, settings: Settings) -> Row:
    from ..launch.pool import AgentLost
    from ..probing import job_transports

    try:
        found = job_transports(job, settings)
    except AgentLost:
        raise
    except AutotuneError as err:
        return ("error", "pairs of ranks", err.message, err.remedy)
    return (
        "ok",
        "pairs of ranks",
        transport_words(found, job.hosts, [job.host_name(host) for host in job.hosts]),
        None,
    )


def transport_words(
    found: Mapping[tuple[int, int], Sequence[str]], hosts: Sequence[Sequence[int]], names: Sequence[str]
) -> str:
    """``inside a host: shared memory; hosta-hostb, hosta-hostc: sockets/eth0``."""
    host_of = {rank: number for number, host in enumerate(hosts) for rank in host}
    by_kinds: dict[str, dict[str, None]] = {}
    for (low, high), kinds in found.items():
        a, b = sorted((host_of[low], host_of[high]))
        where = "inside a host" if a == b else f"{names[a]}-{names[b]}"
        by_kinds.setdefault(" and ".join(kinds), {})[where] = None
    return "; ".join(f"{', '.join(places)}: {kinds}" for kinds, places in by_kinds.items())
