"""One rank of a backend with groups: `torch_worker`, where a config says on which process group a call runs.

In:  requests, one JSON line each, on the socket that it inherited. Out: one JSON line for each.
May not touch: the store, tables, files. `torch_groups.GroupsBackend` starts it.

A group is made by the first call that needs it, on all ranks in the same order, and kept for the next ones. Groups on
NPUs hold twice their buffer, so only a few are kept; and of groups that exclude each other (AIV on two communicators
hangs) the older one is ended first. On NPUs: run on hardware: no.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

from ..errors import AutotuneError, UsageError
from ..hccl.groups import family_of
from ..kernels import Shape
from ..kernels.portable import PortableCommunicator
from ..kernels.portable_tensors import lengths
from ..portfolio.family import ANY
from ..portfolio.knobs import PIECES, check_pieces
from ..portfolio.torch_groups import library_call, new_group
from ..types import Collective, Config, KnobValue
from . import torch_worker
from .rank_process import Json
from .torch_agreement import Agreement
from .torch_worker import Buffers, TorchCall, TorchGroup, TorchWorker

_MOST_GROUPS = 12

Options = tuple[tuple[str, KnobValue], ...]


class _Group:
    """A process group, its options, and our schedules over it."""

    def __init__(self, group: dist.ProcessGroup, exclusive: str | None) -> None:
        self.group = group
        self.exclusive = exclusive
        self.ours = PortableCommunicator(group, selector=_no_selector)
        self.warm: set[tuple[Collective, bool]] = set()


class GroupsGroup(TorchGroup):
    """Calls on several process groups of the same ranks."""

    family_name = "gloo"

    def __init__(self, native: Agreement, device: str, timeout_s: float) -> None:
        super().__init__(native, device, timeout_s)
        self._family = family_of(self.family_name)
        self._timeout = timedelta(seconds=timeout_s)
        self._groups: dict[Options, _Group] = {}

    def prepare(self, shape: Shape, config: Config) -> TorchCall:
        """The call, checked; its group is made.

        Raises:
            UsageError: a config that cannot be carried out, on every rank alike.
        """
        own = self._family.schedule(config)
        group = self._group_of(shape, config)
        if own is not None:
            group.ours.prepare(shape, own)
        else:
            self._check_library(shape, config)
        return TorchCall(shape, config, *lengths(shape, self._native.n_ranks))

    def time(self, call: TorchCall, barrier: object, inputs: Buffers, outputs: Buffers, calls: int) -> float:
        """See `TorchGroup`. A collective's first call on a group connects ranks and may compile: it is not timed."""
        group = self._group_of(call.shape, call.config)
        kind = (call.shape.collective, self._family.schedule(call.config) is None)
        if kind not in group.warm:
            super().time(call, barrier, inputs[:1], outputs[:1], 1)
            group.warm.add(kind)
        return super().time(call, barrier, inputs, outputs, calls)

    def _step(self, call: TorchCall, source: torch.Tensor, target: torch.Tensor) -> Callable[[], object]:
        own, group = self._family.schedule(call.config), self._group_of(call.shape, call.config)
        if own is not None:
            return lambda: group.ours.run(call.shape, own, source, target)
        return library_call(
            call.shape,
            source,
            target,
            self._native.rank,
            self._native.n_ranks,
            group.group,
            pieces=_pieces(call.config),
        )

    def _check_library(self, shape: Shape, config: Config) -> None:
        """Raises UsageError for what the library's collective cannot be told."""
        if config.segment_bytes is not None or config.codec != "none":
            raise UsageError(f"config {config}: the library's collective is not cut", remedy="leave the segment out")
        known = {*self._family.group_settings(config), *self._family.process_settings(config)}
        for name, value in config.knobs:
            if name == PIECES:
                check_pieces(shape.collective, value)
            elif (name, value) not in known:
                raise UsageError(f"config {config} has the unknown knob {name!r}", remedy=f"leave {name} out")

    def _group_of(self, shape: Shape, config: Config) -> _Group:
        settings = self._family.group_settings(config)
        word = self._family.algorithm(shape.collective, config)
        named = {} if word is None or word == ANY else {shape.collective: word}
        options: Options = tuple(sorted(self._family.made(settings, named).items()))
        if options not in self._groups:
            exclusive = self._family.exclusive(settings, self._family.process_settings(config))
            self._make_room(exclusive)
            made = new_group(self.family_name, dict(options), timeout=self._timeout)
            self._groups[options] = _Group(made, exclusive)
        self._groups[options] = self._groups.pop(options)  # the last one used is the last one to go
        return self._groups[options]

    def _make_room(self, exclusive: str | None) -> None:
        gone = [o for o, group in self._groups.items() if exclusive is not None and group.exclusive == exclusive]
        kept = [options for options in self._groups if options not in gone]
        for options in (*gone, *kept[: max(0, len(kept) + 1 - _MOST_GROUPS)]):
            dist.destroy_process_group(self._groups.pop(options).group)


class GroupsOfHccl(GroupsGroup):
    """On NPUs."""

    family_name = "hccl"


_KINDS: dict[str, type[GroupsGroup]] = {"gloo": GroupsGroup, "hccl": GroupsOfHccl}


class GroupsWorker(TorchWorker):
    """`TorchWorker` on several groups."""

    def answer(self, request: dict[str, Json]) -> dict[str, Json]:
        """Do what a request says."""
        if request["do"] == "device":
            environment = request["environment"]
            assert isinstance(environment, dict), "names and values"
            # Libraries read their variables when the first group is made.
            os.environ.update({name: str(value) for name, value in environment.items()})
            self._ranks.open(str(request["device"]), _KINDS[str(request["family"])])
            return {"torch": torch.__version__}
        return super().answer(request)


def _pieces(config: Config) -> int:
    return int(dict(config.knobs).get(PIECES, 1))


def _no_selector(*_: object) -> Config:
    raise AssertionError("a worker's calls bring their config")


if __name__ == "__main__":
    try:
        torch_worker.main(sys.argv[1:], GroupsWorker)
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
