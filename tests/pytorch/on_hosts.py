"""``python on_hosts.py HOSTS PER_HOST WITHIN_S COMMAND...``: ranks of a command in network namespaces, not shaped.

Exit code 0 if all ranks ended well, 77 if hosts cannot be made here, else 1; errors on standard error. The program goes
into a user namespace of its own where it is not root, and takes everything away at its end.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from hosts.launch import run_ranks
from hosts.network import Network, enter_private, made

from autotune.errors import BackendUnavailable, TrialFailed

CANNOT = 77


def main(hosts: int, per_host: int, within_s: float, command: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a test's time-out: nothing is left either
    try:
        enter_private()
        with made(Network(n_hosts=hosts, rate_mbit=None, prefix=f"atp{os.getpid()}")) as network:
            run_ranks(network, command, within_s=within_s, capture=False, per_host=(per_host,) * hosts)
    except BackendUnavailable as err:
        print(err.message, file=sys.stderr)
        return CANNOT
    except TrialFailed as err:
        print(err.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
