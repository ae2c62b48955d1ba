"""One rank of a job on several hosts: ``python -P -m pytorch.host_rank CHECK...``, with torchrun's environment.

In:  names of checks, ``module.function`` of tests/pytorch. Out: a JSON line for each, [rank, check, what it returned];
exit code 1 with a traceback where one fails.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import autotune.runtime.torch  # noqa: F401 - registers mc2


def main(checks: list[str]) -> None:
    faulthandler.dump_traceback_later(90.0, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group("cpu:mc2", timeout=timedelta(seconds=30))
    for check in checks:
        module, _, name = check.partition(".")
        value = getattr(importlib.import_module(f"pytorch.{module}"), name)()
        sys.stdout.write(json.dumps([dist.get_rank(), check, value]) + "\n")  # whole: ranks share the pipe
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
