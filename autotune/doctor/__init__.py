"""What on this host would spoil a run, and what to do about it.

    facts: this host ──► checks: one finding a check ──► the worst first

In:  a root, the settings, the most ranks. Out: findings. Nothing is changed, nothing is started.
"""

from __future__ import annotations

import os

from .. import settings as settings_module
from ..hccl.installed import torch_npu_fault
from ..settings import Settings
from .checks import CHECKS
from .facts import Facts, gather, own_addresses
from .findings import Finding, Severity, error

__all__ = ["CHECKS", "Facts", "Finding", "Severity", "diagnose", "examine", "gather", "own_addresses"]


def diagnose(root: str = "/", settings: Settings | None = None, n_ranks: int | None = None) -> list[Finding]:
    """Look at this host: one finding a check, the worst first.

    Args:
        root: where ``/sys``, ``/proc`` and ``/dev`` are looked for.
        settings: those of the environment unless given.
        n_ranks: the most ranks that will run here; unless given, the launcher's LOCAL_WORLD_SIZE or
            WORLD_SIZE, else one for each core.

    Raises:
        ProbeError: the machine could not be read.
    """
    found = examine(gather(root, settings or settings_module.read(), n_ranks))
    fault = torch_npu_fault(os.environ, root)
    return found if fault is None else [error("torch_npu", *fault), *found]


def examine(facts: Facts) -> list[Finding]:
    """The checks alone, pure."""
    order = list(Severity)
    return sorted((check(facts) for check in CHECKS), key=lambda finding: order.index(finding.severity))
