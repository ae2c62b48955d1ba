"""At most K process groups and which call goes to which, for autotune's own runtime: JSON.

In:  a table, with the trials behind it. Out: the file of a `Portfolio`, which ``autotune.runtime.torch_groups`` makes
and routes by. May not touch: groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..hccl.groups import BACKEND as HCCL
from ..hccl.groups import PORTABLE, family_of
from ..portfolio import Family, Limits, Measured, Portfolio, choose, dump_portfolio
from ..table import Rule, TuningTable
from ..types import Config, RuleKey
from ..units import format_bytes
from .decisions import visible_rules
from .exporter import PLAIN, Exported, Request, nothing_left
from .hccl_groups import on_hccl
from .one_for_all import weighted_cells

Translate = Callable[[RuleKey, Config], Config | str]
"""What a measured config is to the groups, or why it is nothing."""


@dataclass(frozen=True, slots=True)
class PortfolioExporter:
    """``autotune.runtime.torch_groups.open_groups``."""

    name: str = "portfolio"
    suffix: str = ".json"
    summary: str = "autotune's runtime on torch: process groups with settings of their own, and a route for every call"
    library: str | None = None
    loses: tuple[str, ...] = (
        "the free choice: at most --max-groups groups are made; the loss is printed",
        "figures and the trials that prove a rule",
    )
    checked: str = "groups of gloo made and routed by it in every test run; run on hardware: no"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        backend = table.defaults.backend

        def translate(key: RuleKey, config: Config) -> Config | str:
            if backend != HCCL or config.algorithm.startswith(PORTABLE):
                return config
            return on_hccl(key, config, backend, request.soc)

        found, notes = portfolio_of(table, request, family_of(backend), translate, self.name)
        usage = (
            "# in the job, on every rank, after torch.distributed.init_process_group():",
            "from autotune.runtime.torch_groups import open_groups",
            "comm = open_groups('{path}'); comm.all_reduce(tensor)",
        )
        return Exported(text=dump_portfolio(found), notes=notes, usage=usage)


def portfolio_of(
    table: TuningTable, request: Request, family: Family, translate: Translate, format_name: str
) -> tuple[Portfolio, tuple[str, ...]]:
    """The groups that lose least, and what is to be said of them.

    Raises:
        AutotuneError: nothing can be served, or not within the limits.
    """
    rules, notes = visible_rules(table, request, lambda key: (key.dtype, key.op_class, key.placement))
    refused: dict[str, int] = {}
    measured: list[Measured] = []
    for key, own in rules.items():
        for cell in _measured(key, own, table, request, translate, refused):
            measured.append(replace(cell, key=replace(key, backend=family.backend)))
    notes += [f"left out, {times} times: {why}" for why, times in refused.items()]
    if not measured:
        raise nothing_left(format_name, tuple(notes), table, request)
    limits = Limits(max_groups=request.max_groups, max_memory_bytes=request.max_group_memory_bytes)
    found = choose(measured, family, limits)
    return found, (*notes, *_said(found, request))


def _measured(
    key: RuleKey,
    rules: Sequence[Rule],
    table: TuningTable,
    request: Request,
    translate: Translate,
    refused: dict[str, int],
) -> list[Measured]:
    found = []
    for rule, cell in zip(rules, weighted_cells(key, rules, table, request), strict=True):
        times: dict[Config, float] = {}
        for config, time_us in cell.times_us.items():
            meant = translate(key, config)
            if isinstance(meant, str):
                refused[meant] = refused.get(meant, 0) + 1
            else:
                times[meant] = min(time_us, times.get(meant, time_us))
        if not times:
            continue
        free = translate(key, cell.free)
        best = min(times, key=lambda config: (times[config], str(config)))
        free = best if isinstance(free, str) or free not in times else free
        found.append(
            Measured(
                key=key,
                from_bytes=rule.from_bytes,
                to_bytes=rule.to_bytes,
                weight=cell.weight,
                free=free,
                free_us=times[free],
                times_us=times,
            )
        )
    return found


def _said(found: Portfolio, request: Request) -> list[str]:
    memory = f"{format_bytes(found.memory_bytes)} on each rank"
    proof = (
        "no choice within the limits loses less"
        if found.proved
        else f"not proved to be the least: no choice loses less than {100 * found.bound:.2f} %"
    )
    said = [
        f"{len(found.groups)} of at most {found.max_groups} groups, {memory}, lose {100 * found.loss:.2f} % against "
        f"the free choice; {proof}"
    ]
    worst = max(found.routes, key=lambda route: route.loss)
    if worst.loss > 0.0:
        said.append(f"at worst {100 * worst.loss:.1f} %: {worst.key} from {format_bytes(worst.from_bytes)}")
    if not request.trials:
        said.append(
            "the trials behind the table are not at hand (--db), so of each size only the choice and the default count"
        )
    for group in found.groups:
        options = ", ".join(f"{name}={value}" for name, value in group.options) or "as the library makes it"
        served = sum(found.groups[route.group] == group for route in found.routes)
        said.append(f"{group.name}: {options}; takes {served} of {len(found.routes)} ranges of sizes")
    return said
