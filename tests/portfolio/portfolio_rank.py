"""One rank of a gloo job that runs on a portfolio (``-m portfolio.portfolio_rank``), started by RankPool.

In:  requests with portfolios and calls. Out: what is wrong on this rank, and where calls went.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist

from autotune.backends import torch_worker
from autotune.errors import AutotuneError
from autotune.kernels import Communicator
from autotune.portfolio import parse_portfolio
from autotune.runtime.torch_groups import GroupsCommunicator, open_groups
from autotune.types import Collective, DType, ReduceOp


class PortfolioRank(torch_worker.TorchWorker):
    """Calls on groups instead of trials."""

    def __init__(self, native: Communicator, timeout_s: float) -> None:
        super().__init__(native, timeout_s)
        self.native = native

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "calls":
                return self.calls(request["portfolio"], request["counts"])
            case "open":
                return {"said": self.open(request["portfolios"][self.native.rank], request["environment"])}
        return super().answer(request)

    def calls(self, text: str, counts: list[int]) -> dict[str, Any]:
        """Every collective with every count: what came out wrong, and the group and threads of each."""
        comm = open_groups(parse_portfolio(text, "portfolio"), timeout_s=20.0)
        wrong: list[str] = []
        went: list[Any] = []
        for count in counts:
            wrong += self._wrong(comm, count)
            routed = comm.route(Collective.ALL_REDUCE, count * 4, DType.FLOAT32, ReduceOp.SUM)
            went.append([count, routed.group, str(routed.config)])
        threads = [group._get_backend(torch.device("cpu")).options._threads for group in comm._groups]
        comm.close()
        return {"wrong": wrong, "went": went, "threads": threads}

    def _wrong(self, comm: GroupsCommunicator, count: int) -> list[str]:
        n, rank = comm.n_ranks, comm.rank
        own = torch.arange(count, dtype=torch.float32) + rank
        total = n * torch.arange(count, dtype=torch.float32) + n * (n - 1) / 2
        every = torch.stack([torch.arange(count, dtype=torch.float32) + r for r in range(n)])
        found = {
            "all_reduce": torch.equal(comm.all_reduce(own.clone()), total),
            "all_reduce out": torch.equal(comm.all_reduce(own, out=torch.empty(count)), total),
            "average": torch.equal(comm.all_reduce(own.clone(), "avg"), total / n),
            "all_gather": torch.equal(comm.all_gather(own), every),
            "broadcast": torch.equal(comm.broadcast(own.clone(), root=1), every[1]),
            "reduce": torch.equal(comm.reduce(own.clone()), total if rank == 0 else own),
            "reduce_scatter": torch.equal(
                comm.reduce_scatter(every.flatten().clone(), torch.empty(count)), n * every[rank]
            ),
            "scatter": torch.equal(
                comm.scatter(every.flatten().clone() if rank == 0 else None, torch.empty(count)), every[rank]
            ),
        }
        sent = torch.cat([own + 100 * r for r in range(n)])
        got = comm.all_to_all(sent, torch.empty_like(sent)).view(n, -1)
        found["all_to_all"] = torch.equal(got, every + 100 * rank)
        gathered = comm.gather(own, torch.empty(n * count) if rank == 0 else None)
        found["gather"] = gathered is None or torch.equal(gathered.view(n, -1), every)
        place = torch.full((n, count), -1.0)
        place[rank] = own
        comm.all_gather(place[rank], place)
        found["all_gather in place"] = torch.equal(place, every)
        return [f"{name} of {count}" for name, right in found.items() if not right]

    def open(self, text: str, environment: dict[str, str]) -> str:
        os.environ.update(environment)
        try:
            open_groups(parse_portfolio(text, "portfolio"), timeout_s=20.0).close()
        except AutotuneError as err:
            return f"{type(err).__name__}: {err.message} | {err.remedy}"
        finally:
            for name in environment:
                del os.environ[name]
            dist.barrier()
        return ""


if __name__ == "__main__":
    torch_worker.main(sys.argv[1:], PortfolioRank)
