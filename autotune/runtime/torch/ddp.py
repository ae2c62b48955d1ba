"""Gradient exchange for DistributedDataParallel: each bucket by the config that was tuned for its size.

In:  gradient buckets. Out: their averages over the ranks, as futures.
May not touch: which executor runs (executors.py), what a config is (choosing.py).

With a lossy codec, what each rank drops is added to its next contribution (error feedback, kept by bucket), and the
first steps travel as they are: gradients change fastest then, and DistributedDataParallel rebuilds its buckets after
the first one. A bucket that holds other parameters than before starts afresh.
"""

# No postponed annotations here: torch compares the hook's own with its types.
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ...types import Collective, ReduceOp
from .choosing import Wishes, choose
from .executors import NativeExecutor, executor, shape_of

LOSSLESS_STEPS = 10
Argument = Any  # of DistributedDataParallel; torch is not type-checked


class Exchange:
    """The state of `ddp_hook` on one rank.

    Args:
        group: None for the whole job.
        compression, max_error, topo: as for `mc2_all_reduce`.
        lossless_steps: steps before a lossy codec is used.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        *,
        compression: bool | str | None = None,
        max_error: float | None = None,
        topo: str | None = None,
        lossless_steps: int = LOSSLESS_STEPS,
    ) -> None:
        self._executor = executor(group)
        self._wishes = Wishes(compression=compression, max_error=max_error, topo=topo)
        self._at_first = Wishes(compression=False, topo=topo)
        self._left = lossless_steps if self._wishes.lossy else 0
        self._parameters: dict[int, tuple[int, ...]] = {}
        self.feedback = self._executor.feedback()

    def start(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Exchange a bucket; the future holds its buffer, averaged."""
        tensor = bucket.buffer()
        runner = self._executor
        native = isinstance(runner, NativeExecutor)
        shape = shape_of(Collective.ALL_REDUCE, tensor, tensor.numel(), ReduceOp.AVG, native)
        wishes = self._at_first if self._left else self._wishes
        config = choose(wishes, lambda budget: runner.ask(shape, budget), shape.collective, runner.ranks)
        if self._left and bucket.is_last():
            self._left -= 1
        if config.codec == "none":
            pending = runner.start(shape, config, tensor, tensor)
        else:
            pending = runner.start_corrected(shape, config, tensor, self.feedback, self._name(bucket))
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def tell() -> None:
            error = pending.error()
            if error is None:
                future.set_result(tensor)
            else:
                future.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

        pending.when_done(tell)
        return future

    def _name(self, bucket: dist.GradBucket) -> str:
        """The bucket's name for error feedback; one that was rebuilt has nothing left over."""
        index, parameters = bucket.index(), tuple(map(id, bucket.parameters()))
        name = f"bucket {index}"
        if self._parameters.get(index) != parameters:
            self._parameters[index] = parameters
            if name in self.feedback.names():
                self.feedback.reset(name)
        return name


def ddp_hook(state: Exchange, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook: ``model.register_comm_hook(Exchange(), ddp_hook)``."""
    return state.start(bucket)


class MC2DistributedDataParallel(DistributedDataParallel):  # type: ignore[misc]  # torch is not type-checked
    """DistributedDataParallel whose buckets are exchanged by tuned configs, over a group of any backend.

    Args:
        compression, max_error, topo: as for `mc2_all_reduce`.
        lossless_steps: steps before a lossy codec is used.
        arguments: those of DistributedDataParallel.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *arguments: Argument,
        compression: bool | str | None = None,
        max_error: float | None = None,
        topo: str | None = None,
        lossless_steps: int = LOSSLESS_STEPS,
        **named: Argument,
    ) -> None:
        super().__init__(module, *arguments, **named)
        self.exchange = Exchange(
            self.process_group,
            compression=compression,
            max_error=max_error,
            topo=topo,
            lossless_steps=lossless_steps,
        )
        self.register_comm_hook(self.exchange, ddp_hook)
