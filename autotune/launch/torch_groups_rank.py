"""A child of an agent in a job on several hosts: one rank of a backend with process groups, gloo or hccl.

In:  requests, one JSON line each, on the socket that it inherited. Out: one JSON line for each.
May not touch: the store of trials, tables, files. `pool.AgentPool` starts it; how its ranks meet is torch_rank.py's.
"""

from __future__ import annotations

import sys

from ..backends.torch_groups_worker import GroupsWorker
from ..errors import AutotuneError
from .torch_rank import main

if __name__ == "__main__":
    try:
        main(sys.argv[1:], GroupsWorker)
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
