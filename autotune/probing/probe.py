"""A probe: of this host, or of the hosts of a launcher's job.

In:  settings, perhaps a job. Out: a `Probe`; each host's fingerprint is in its user's cache then, and of several hosts
the rate of each one's link. May not touch: the store, tables.
"""

from __future__ import annotations

from ..errors import UsageError
from ..launch import Job
from ..settings import Settings
from ..topology.environment import environment
from ..topology.fingerprint import fingerprint, remember_fingerprint
from ..topology.host import parse
from .host import Probe, Progress, filled, in_rank_table, measured_links, of_host, record
from .job import probed_job

BACKENDS = ("native", "torch")


def probe(
    settings: Settings,
    *,
    measure: bool = True,
    backend: str = "native",
    progress: Progress = lambda _: None,
    job: Job | None = None,
) -> Probe:
    """Read and measure this host, and remember its fingerprint for `select`.

    Args:
        measure: False leaves out the ranks that measure latency and bandwidth, about a second for each pair.
        backend: what carries the messages that are measured, one of ``BACKENDS``.
        progress: told in words what happens next.
        job: of the launcher that started this process, whose hosts are probed.

    Raises:
        ProbeError: the host or its rank table cannot be read.
        BackendUnavailable: the ranks that measure did not start.
        UsageError: no such backend.
    """
    if backend not in BACKENDS:
        raise UsageError(f"--backend {backend!r} is none of {', '.join(BACKENDS)}", remedy="give --backend native")
    progress("reading the host" if job is None else f"reading {len(job.hosts)} host(s) of {job.n_ranks} ranks")
    if job is not None:
        return probed_job(job, settings, measure=measure, backend=backend, progress=progress)
    recording = record(settings)
    topology = filled(parse(of_host(recording)))
    if measure:
        topology = topology.with_links(measured_links(topology, backend, settings, progress))
    remember_fingerprint(settings.cache_dir, topology)
    own = fingerprint(topology)
    return Probe(
        topology=topology,
        fingerprint=own,
        cluster=in_rank_table(topology, recording),
        recording=recording,
        host_fingerprints=(own,),
        environment=environment(),
    )
