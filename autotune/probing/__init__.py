"""Probing: what is here, and how fast. ``probe`` for this host or a job's, ``gather`` for recordings of others."""

from .host import Probe, gather, host_report, keep_own_rate, record
from .job import cpus_of
from .probe import BACKENDS, probe
from .transports import job_transports

__all__ = [
    "BACKENDS",
    "Probe",
    "cpus_of",
    "gather",
    "host_report",
    "job_transports",
    "keep_own_rate",
    "probe",
    "record",
]
