"""Inside the launchers people use: torchrun, srun and mpirun start the ranks, and rank 0 leads them.

environment  what the launcher set, read and checked
links        messages with a MAC between agents
hello        what each rank says of itself
store        torch's TCPStore, on several hosts
meeting      how agents find each other
seats        which ranks make a smaller group, and their cores
agent        a launched process; its child does the trials
pool         ranks for a backend, started by agents
job          all of it, as rank 0 and as the others see it
setup, *_rank  the children of agents on several hosts
"""

from __future__ import annotations

from .job import Follower, Job, join
from .pool import AgentLost

__all__ = ["AgentLost", "Follower", "Job", "join"]
