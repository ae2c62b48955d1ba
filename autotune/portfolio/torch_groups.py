"""Process groups of torch that are made with settings, and the calls on them. Imports torch; nothing of the job's start
loads this.

In:  a backend's name and options. Out: a process group, made on every rank in the same order. May not touch: routes,
tables, devices other than the tensors' own.

torch passes ``pg_options`` on to HCCL and NCCL, but not to gloo. So gloo is registered once more under a name of its
own, as torch_npu registers HCCL: ``register_backend(..., extended_api=True)``. On NPUs the options become
``ProcessGroupHCCL.Options().hccl_config`` (run on hardware: no).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from datetime import timedelta

import torch
import torch.distributed as dist

from ..errors import BackendUnavailable, UsageError
from ..kernels import Shape
from ..types import Collective, KnobValue, ReduceOp
from .family import GLOO_KNOBS
from .pieces import in_pieces

TUNED_GLOO = "autotune_gloo"
_MOST = 64  # threads or devices of a gloo group
_OPS = {
    ReduceOp.SUM: dist.ReduceOp.SUM,
    ReduceOp.PROD: dist.ReduceOp.PRODUCT,
    ReduceOp.MAX: dist.ReduceOp.MAX,
    ReduceOp.MIN: dist.ReduceOp.MIN,
}


def new_group(backend: str, options: Mapping[str, KnobValue], *, timeout: timedelta) -> dist.ProcessGroup:
    """A group of all ranks; every rank calls this with the same arguments, in the same order.

    Args:
        backend: ``gloo`` or ``hccl``; of another one a plain group, as torch makes it.

    Raises:
        UsageError: an option that the backend does not have.
        BackendUnavailable: torch_npu is not here.
    """
    name: str | None
    made: object  # torch's options have no common type
    if backend == "gloo":
        check_gloo(options)
        _register_gloo()
        name, made = TUNED_GLOO, dict(options)
    elif backend == "hccl":
        name, made = "hccl", _hccl_options(options, timeout)
    elif options:
        raise UsageError(f"groups of {backend!r} cannot be made with settings", remedy="use gloo or hccl")
    else:
        name, made = None, None
    group = dist.new_group(backend=name, pg_options=made, timeout=timeout)
    assert isinstance(group, dist.ProcessGroup), "every rank is a member"
    return group


def check_gloo(options: Mapping[str, KnobValue]) -> None:
    """Whether gloo has these options.

    Raises:
        UsageError: it has not.
    """
    for name, value in options.items():
        if name not in GLOO_KNOBS:
            raise UsageError(f"gloo's groups have no {name!r}", remedy=f"use {' or '.join(GLOO_KNOBS)}")
        if not isinstance(value, int) or not 1 <= value <= _MOST:
            raise UsageError(f"{name} is {value!r}, not from 1 to {_MOST}", remedy=f"give {name} from 1 to {_MOST}")


def _register_gloo() -> None:
    if not hasattr(dist.Backend, TUNED_GLOO.upper()):
        dist.Backend.register_backend(TUNED_GLOO, _make_gloo, extended_api=True, devices=["cpu"])


def _make_gloo(asked: dist._DistributedBackendOptions, options: Mapping[str, int]) -> object:
    """As torch's own creation of gloo, with options."""
    gloo = dist.ProcessGroupGloo
    made = gloo._Options()
    made._timeout = asked.timeout
    made._threads = options.get("gloo_threads", 2)  # torch's own default
    # As torch does: the address that the host's name resolves to may be 127.0.1.1.
    given = [name for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name]
    names: list[str | None] = [*given] or [None]
    made._devices = [
        gloo.create_default_device() if name is None else gloo.create_device(interface=name)
        for _ in range(options.get("gloo_devices", 1))
        for name in names
    ]
    return gloo(asked.store, asked.group_rank, asked.group_size, made)


def _hccl_options(options: Mapping[str, KnobValue], timeout: timedelta) -> object:
    """``hccl_config`` as torch_npu wants it.

    Raises:
        BackendUnavailable: without torch_npu or CANN.
    """
    try:
        module = importlib.import_module("torch_npu._C._distributed_c10d")
    except Exception as err:  # ImportError without CANN, RuntimeError beside CUDA, plain Exception for a wrong path
        raise BackendUnavailable(
            f"HCCL's groups need torch_npu and CANN: {str(err).splitlines()[0] if str(err) else type(err).__name__}",
            remedy="autotune doctor --env says what is missing",
        ) from err
    made = module.ProcessGroupHCCL.Options()
    made.op_timeout = timeout
    made.hccl_config = dict(options)
    return made


def library_call(
    shape: Shape,
    source: torch.Tensor,
    target: torch.Tensor,
    rank: int,
    n_ranks: int,
    group: dist.ProcessGroup | None = None,
    *,
    pieces: int = 1,
) -> Callable[[], object]:
    """The library's own collective, ready to be called; all_reduce, reduce and broadcast work on `target` in place.

    Args:
        rank: of this process in the group, like the shape's root.
        group: None for the whole job.
        pieces: that the message is carried in, one call each.
    """

    def whole(part: Shape, given: torch.Tensor, result: torch.Tensor) -> Callable[[], object]:
        return _call(part, given, result, rank, n_ranks, group)

    return in_pieces(shape, source, target, n_ranks, pieces, whole)


def _call(
    shape: Shape, source: torch.Tensor, target: torch.Tensor, rank: int, n_ranks: int, group: dist.ProcessGroup | None
) -> Callable[[], object]:
    collective = shape.collective
    root = shape.root if group is None else dist.get_global_rank(group, shape.root)
    match collective:
        case Collective.ALL_REDUCE:
            return lambda: dist.all_reduce(target, _OPS[shape.op], group=group)
        case Collective.REDUCE:
            return lambda: dist.reduce(target, root, _OPS[shape.op], group=group)
        case Collective.BROADCAST:
            return lambda: dist.broadcast(target, root, group=group)
        case Collective.ALL_GATHER:
            return lambda: dist.all_gather_into_tensor(target, source, group=group)
        case Collective.REDUCE_SCATTER:
            return lambda: dist.reduce_scatter_tensor(target, source, _OPS[shape.op], group=group)
        case Collective.SCATTER:
            parts = list(source.chunk(n_ranks)) if rank == shape.root else None
            return lambda: dist.scatter(target, parts, root, group=group)
        case Collective.GATHER:
            places = list(target.chunk(n_ranks)) if rank == shape.root else None
            return lambda: dist.gather(source, places, root, group=group)
        case Collective.ALL_TO_ALL:
            return lambda: dist.all_to_all_single(target, source, group=group)
