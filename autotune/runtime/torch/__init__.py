"""autotune in a PyTorch job: importing this package registers the backend ``mc2``.

    import autotune.runtime.torch
    torch.distributed.init_process_group("cpu:mc2")

In:  torch. Out: the process group (process_group.py), calls that people place by hand (calls.py), and gradient exchange
for DistributedDataParallel (ddp.py).
May not touch: anything before it is imported: no entry point loads it into other torch processes. What a call needs
loads with the first group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import BackendUnavailable

try:
    import torch.distributed as dist
except (ImportError, OSError) as err:  # OSError: one of its libraries is missing
    raise BackendUnavailable(
        f"PyTorch cannot be imported: {err}",
        remedy="pip install 'mc2-autotune[torch]'; where it is installed, autotune doctor says what is broken",
    ) from err

if TYPE_CHECKING:
    from .process_group import ProcessGroup


Asked = Any  # torch's options of a new group have no public type


def _create(asked: Asked, _: object) -> ProcessGroup:
    from .joining import create

    return create(asked.store, asked.group_rank, asked.group_size, asked.timeout, asked.global_ranks_in_group)


def _register() -> None:
    if not dist.is_available():
        raise BackendUnavailable(
            "this torch was built without torch.distributed", remedy="install a build of torch that has it"
        )
    if "mc2" not in dist.Backend.backend_list:
        dist.Backend.register_backend("mc2", _create, extended_api=True, devices=["cpu"])


_register()
