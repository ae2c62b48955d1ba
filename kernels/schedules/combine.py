"""Schedules of one collective made from those of another.

In: schedules. Out: schedules. Knows no topology and no data.

    there_and_back(all_gather)  reduce_scatter, then all_gather   = all_reduce
    there_and_back(broadcast)   reduce, then broadcast            = all_reduce
    from_root(all_gather)       scatter, then all_gather          = broadcast

Chan, Heimlich, Purkayastha and van de Geijn 2007, "Collective communication: theory, practice, and experience", give
the duality of the collectives; scatter + all_gather is Barnett et al. 1994, "Building a high-performance collective
communication library".
"""

from __future__ import annotations

from dataclasses import replace

from .flat import scatter
from .ir import Schedule


def there_and_back(schedule: Schedule) -> Schedule:
    """Everything reduced backwards along the schedule, then handed out forwards along it."""
    return schedule.reversed() + schedule


def from_root(all_gather: Schedule) -> Schedule:
    """The root cuts its buffer into n blocks, deals them out in one step, and the others gather them.

    The root needs nothing back, so its part as a receiver is left out. Every block then travels along one tree, and
    ``reversed()`` is the reduce. The published form deals by a binomial tree; the root's bytes are the same, and one
    step suffices where the others pull.
    """
    steps = tuple(step.only(step.dst != 0) for step in all_gather.steps)
    return scatter(all_gather.n) + replace(all_gather, steps=steps)
