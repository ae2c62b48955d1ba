"""The job's key-value store on several hosts, torch's TCPStore, and what rank 0 tells there: its port and the secret.

In:  MASTER_ADDR and MASTER_PORT. Out: a `KeyValueStore`. torch is imported inside a function, and its absence is a
``BackendUnavailable``.
"""

from __future__ import annotations

import json
import os
import secrets
from datetime import timedelta

from ..errors import BackendUnavailable, CommunicatorError
from ..runtime.board import KeyValueStore
from .environment import Launched, Master

_SECRET_BYTES = 32


def open_store(master: Master, *, serves: bool, within_s: float) -> KeyValueStore:
    """torch's TCPStore of the job.

    Args:
        serves: this is rank 0, which runs the server unless torchrun does already.

    Raises:
        BackendUnavailable: torch is not installed, the port is in use, or nobody serves there.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns of every address that has no name
    try:
        from torch.distributed import TCPStore
    except (ImportError, OSError) as err:  # OSError: one of its libraries is missing
        raise BackendUnavailable(
            f"ranks on several hosts need PyTorch to find each other: {err}", remedy="pip install torch, on all hosts"
        ) from err
    try:
        store: KeyValueStore = TCPStore(
            master.address,
            master.port,
            is_master=serves and not master.served,
            timeout=timedelta(seconds=within_s),
            wait_for_workers=False,
        )
    except RuntimeError as err:  # of which torch's own errors are
        raise BackendUnavailable(
            f"no TCPStore at MASTER_ADDR {master.address}, MASTER_PORT {master.port}: {str(err).splitlines()[0]}",
            remedy="set MASTER_ADDR to an address of rank 0's host that all hosts reach, MASTER_PORT to a free port",
        ) from err
    return store


def tell_port(launch: Launched, store: KeyValueStore, given: bytes | None, port: int) -> bytes:
    """Rank 0's side: say where it listens; the secret of this run, told as well unless all ranks know it."""
    made = secrets.token_bytes(_SECRET_BYTES)
    told = {"port": port, "secret": None if given else made.hex()}
    store.set(_key(launch), json.dumps(told))
    return given or made


def _key(launch: Launched) -> str:
    """Where rank 0 says where it listens. torchrun's own store outlives its restarts, of which each is a job."""
    served = launch.master is not None and launch.master.served
    return f"autotune/{launch.job}/lead" if served else "autotune/lead"


def told_port(launch: Launched, store: KeyValueStore, given: bytes | None, within_s: float) -> tuple[int, bytes]:
    """The other ranks' side: rank 0's port, and the secret.

    Raises:
        CommunicatorError: rank 0 told nothing in time, or AUTOTUNE_SECRET is set on some ranks only.
    """
    try:
        told = json.loads(store.get(_key(launch)))
    except RuntimeError as err:  # of which torch's own errors are
        raise CommunicatorError(
            f"rank 0 did not say within {within_s:g} s where it listens: {str(err).splitlines()[0]}",
            remedy="see what rank 0 wrote; start all ranks with one launcher",
        ) from err
    if (told["secret"] is None) != (given is not None):
        raise CommunicatorError(
            "AUTOTUNE_SECRET is set on some ranks and not on others", remedy="set it on all ranks, or on none"
        )
    return int(told["port"]), given or bytes.fromhex(told["secret"])
