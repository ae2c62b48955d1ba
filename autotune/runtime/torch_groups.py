"""A portfolio at work: its process groups, and every call on the group that it is routed to.

In:  a portfolio (``autotune export --format portfolio``), tensors. Out: results, as `PortableCommunicator` gives them.
May not touch: how groups were chosen. Loads torch and the kernels, so a job imports it by its name:

    from autotune.runtime.torch_groups import open_groups

    comm = open_groups("portfolio.json")        # on every rank, after init_process_group
    comm.all_reduce(tensor)

Every rank makes the same groups in the same order, after it was checked that all have the same portfolio. A route is a
function of the call's arguments and the portfolio alone. A call that the portfolio says nothing of runs the library's
own collective on the job's own group. On NPUs: run on hardware: no.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from ..errors import BackendUnavailable, CommunicatorError, UsageError
from ..hccl.groups import family_of
from ..kernels import Shape
from ..kernels.portable import PortableCommunicator
from ..kernels.portable_tensors import flat
from ..portfolio import Portfolio, Route, parse_portfolio
from ..portfolio.knobs import PIECES, check_pieces
from ..portfolio.torch_groups import library_call, new_group
from ..settings import read
from ..table import LIBRARY
from ..types import Collective, Config, DType, Memory, OpClass, ReduceOp
from .whereabouts import whereabouts

_IN_PLACE = (Collective.ALL_REDUCE, Collective.REDUCE, Collective.BROADCAST)

Kind = tuple[Collective, DType | None, OpClass | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """Where a call goes.

    Args:
        group: the portfolio's name of it; None for the job's own.
        route: None where the portfolio says nothing of such a call.
    """

    group: str | None
    config: Config
    route: Route | None


class GroupsCommunicator(PortableCommunicator):
    """Calls by a portfolio. The methods are those of `PortableCommunicator`; a given config runs on the job's group.

    Args:
        portfolio: the same on all ranks.
        timeout_s: of the groups.
        placement: ranks on each host; None: where they are, which they tell each other.

    Raises:
        BackendUnavailable: torch.distributed is not initialised, or the backend cannot make such groups.
        UsageError: the processes do not have the variables that the portfolio was measured with.
        CommunicatorError: ranks have different portfolios; all of them are told.
    """

    def __init__(
        self,
        portfolio: Portfolio,
        *,
        timeout_s: float,
        placement: tuple[int, ...] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(selector=self._asked)
        self._portfolio = portfolio
        self._family = family_of(portfolio.backend)
        _check_process(portfolio, os.environ if environ is None else environ)
        found = _agree(portfolio, self.rank, self.n_ranks)
        self._routes = _by_kind(portfolio, self.n_ranks, found if placement is None else tuple(sorted(placement)))
        timeout = timedelta(seconds=timeout_s)
        self._groups = [
            new_group(portfolio.backend, dict(group.options), timeout=timeout) for group in portfolio.groups
        ]
        self._ours = [PortableCommunicator(group, selector=self._asked) for group in self._groups]

    def route(self, collective: Collective, message_bytes: int, dtype: DType, op: ReduceOp = ReduceOp.SUM) -> Routed:
        """Where such a call goes, and with which config."""
        found = self._route(collective, message_bytes, dtype, op)
        if found is None:
            return Routed(group=None, config=LIBRARY, route=None)
        return Routed(group=self._portfolio.groups[found.group].name, config=found.config, route=found)

    def run(
        self,
        shape: Shape,
        config: Config | None,
        source: torch.Tensor | None,
        target: torch.Tensor | None,
        residual: torch.Tensor | None = None,
    ) -> None:
        """See `PortableCommunicator`. What a portfolio routes drops nothing, so that its residual stays as it is."""
        if config is not None:
            return super().run(shape, config, source, target, residual)
        found = self._route(shape.collective, shape.message_bytes(self.n_ranks), shape.dtype, shape.op)
        own = None if found is None else self._family.schedule(found.config)
        if found is not None and own is not None:
            return self._ours[found.group].run(shape, own, source, target)
        if found is None:
            return self._library(shape, None, 1, source, target)
        pieces = check_pieces(shape.collective, dict(found.config.knobs).get(PIECES, 1))
        return self._library(shape, self._groups[found.group], pieces, source, target)

    def close(self) -> None:
        """End the portfolio's groups; every rank calls it."""
        for group in self._groups:
            dist.destroy_process_group(group)
        self._groups, self._ours, self._routes = [], [], {}

    def _route(self, collective: Collective, message_bytes: int, dtype: DType, op: ReduceOp) -> Route | None:
        kind = (collective, dtype, op.op_class) if collective.computes else (collective, None, None)
        starts, routes = self._routes.get(kind, ([], []))
        at = bisect_right(starts, message_bytes) - 1
        return routes[at] if at >= 0 and message_bytes < routes[at].to_bytes else None

    def _library(
        self,
        shape: Shape,
        group: dist.ProcessGroup | None,
        pieces: int,
        source: torch.Tensor | None,
        target: torch.Tensor | None,
    ) -> None:
        given, result = flat(shape, self.n_ranks, self.rank, source, target)
        averaged = shape.op is ReduceOp.AVG and shape.collective.computes
        plain = Shape(shape.collective, shape.dtype, ReduceOp.SUM, shape.root, shape.count) if averaged else shape
        with torch.no_grad():
            if shape.collective in _IN_PLACE:
                if result is None:  # reduce, on ranks that get nothing: the library may write what they give
                    assert given is not None, "every rank of a reduce gives something"
                    result = given.clone()
                elif given is not None and given.data_ptr() != result.data_ptr():
                    result.copy_(given)
                given = result
            elif given is not None and result is not None and _overlap(given, result):
                given = given.clone()
            # Where a rank has no input or no output, the library is given nothing that it would look at.
            some = given if given is not None else result
            assert some is not None, "every rank has an input or an output"
            library_call(
                plain, some if given is None else given, some if result is None else result,
                self.rank, self.n_ranks, group,
            )()  # fmt: skip
            if averaged and result is not None:
                result.div_(self.n_ranks, rounding_mode=None if result.is_floating_point() else "trunc")

    def _chosen(self, shape: Shape) -> Config:
        raise UsageError("error feedback for a call by a portfolio, which has no codecs", remedy="give config=, too")

    def _asked(self, collective: Collective, message_bytes: int, dtype: DType, op: ReduceOp, memory: Memory) -> Config:
        raise AssertionError("every call brings its config")


def open_groups(
    portfolio: Portfolio | str | os.PathLike[str],
    *,
    timeout_s: float | None = None,
    placement: tuple[int, ...] | None = None,
) -> GroupsCommunicator:
    """The groups of a portfolio, or of its file; every rank calls it, after ``init_process_group``.

    Args:
        timeout_s: None for AUTOTUNE_TIMEOUT.
        placement: ranks on each host; None: where they are, which they tell each other.

    Raises:
        UsageError: the file cannot be read, or the processes lack variables.
        TableFormatError: the file holds no portfolio.
        BackendUnavailable, CommunicatorError: as `GroupsCommunicator`.
    """
    if not isinstance(portfolio, Portfolio):
        path = Path(portfolio)
        try:
            text = path.read_text("utf-8")
        except (OSError, ValueError) as err:
            reason = getattr(err, "strerror", None) or err
            raise UsageError(f"{path}: cannot be read: {reason}", remedy="autotune export --format portfolio") from err
        portfolio = parse_portfolio(text, str(path))
    if not (dist.is_available() and dist.is_initialized()):
        raise BackendUnavailable(
            "torch.distributed is not initialised", remedy="call torch.distributed.init_process_group() first"
        )
    wait = read().timeout_s if timeout_s is None else timeout_s
    return GroupsCommunicator(portfolio, timeout_s=wait, placement=placement)


def _by_kind(
    portfolio: Portfolio, n_ranks: int, placement: tuple[int, ...]
) -> dict[Kind, tuple[list[int], list[Route]]]:
    found: dict[Kind, tuple[list[int], list[Route]]] = {}
    for route in portfolio.routes:
        key = route.key
        if (key.n_ranks, key.placement) == (n_ranks, placement):
            starts, routes = found.setdefault((key.collective, key.dtype, key.op_class), ([], []))
            starts.append(route.from_bytes)
            routes.append(route)
    return found


def _check_process(portfolio: Portfolio, environ: Mapping[str, str]) -> None:
    missing = [f"{name}={value}" for name, value in portfolio.process if environ.get(name) != value]
    if missing:
        raise UsageError(
            f"the portfolio was measured under {', '.join(missing)}, which this process does not have",
            remedy=f"export {' '.join(missing)} before the job starts",
        )


def _agree(portfolio: Portfolio, rank: int, n_ranks: int) -> tuple[int, ...]:
    """Whether all ranks have the same portfolio; the ranks on each host, ascending."""
    mine = (portfolio.digest, whereabouts(read().runtime_dir).host)
    everyone: list[tuple[str, str]] = [mine] * n_ranks
    dist.all_gather_object(everyone, mine)
    digests, hosts = zip(*everyone, strict=True)
    other = [r for r, theirs in enumerate(digests) if theirs != digests[0]]
    if other:
        raise CommunicatorError(
            f"rank(s) {', '.join(map(str, other))} have another portfolio than rank 0 (seen by rank {rank})",
            remedy="give all ranks the same file",
        )
    return tuple(sorted(Counter(hosts).values()))


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    first, last = a.data_ptr(), b.data_ptr()
    return bool(first < last + b.numel() * b.element_size() and last < first + a.numel() * a.element_size())
