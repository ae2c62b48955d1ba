"""A child of an agent in a job on several hosts: one rank of the native backend.

In:  requests, one JSON line each, on the socket that it inherited; the first one brings the run's secret.
Out: one JSON line for each. May not touch: the store of trials, tables, files. `pool.AgentPool` starts it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

from ..backends.worker import Worker, serve
from ..errors import AutotuneError
from ..kernels import Communicator, _native
from ..measure.timing import COSTLY_SAMPLE_US
from ..runtime.hosts import join_hosts
from ..settings import read
from ..table import shipped_table
from .environment import Master
from .setup import Setup, read_setup
from .store import open_store


def main(arguments: Sequence[str]) -> None:
    """Serve requests until the socket closes."""
    _native.die_with_parent()
    setup = read_setup(json.loads(arguments[2]))
    os.sched_setaffinity(0, {setup.core})
    with socket.socket(fileno=int(arguments[0])) as link, link.makefile("rb") as requests:
        first = requests.readline()
        with _joined(setup, secret=json.loads(first)["secret"]) as comm:
            worker = Worker(comm, sample_us=COSTLY_SAMPLE_US)
            serve(worker, link, [first])
            serve(worker, link, requests)


def _joined(setup: Setup, *, secret: str) -> Communicator:
    store = open_store(
        Master(address=setup.store_address, port=setup.store_port), serves=False, within_s=setup.timeout_s
    )
    return join_hosts(
        store,
        setup.rank,
        setup.n_ranks,
        group=setup.group,
        table=shipped_table("native"),  # calls bring their config
        timeout_s=setup.timeout_s,
        settings=replace(read(), secret=secret, local_rank=setup.local_rank),
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
