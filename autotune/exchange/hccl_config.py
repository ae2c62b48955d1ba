"""At most K process groups for HCCL as a Python module that needs no autotune: ``hccl_config`` and a route by size.

Source: Ascend/pytorch, test/distributed/test_options.py and ProcessGroupHCCL.cpp: the options are read once, when the
group is made; each group takes twice its buffer on every rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..hccl.groups import PORTABLE, HcclFamily
from ..portfolio import Portfolio
from ..table import TuningTable
from ..types import Config, RuleKey
from .exporter import PLAIN, Exported, Request
from .hccl_groups import on_hccl
from .portfolio_format import portfolio_of

_HEADER = '''"""HCCL process groups that autotune chose, and which call goes to which. Made by: autotune export.

    groups = make_groups()                      # once, on every rank, after init_process_group("hccl")
    dist.all_reduce(tensor, group=groups[group_of("all_reduce", tensor.nbytes, "float32", dist.get_world_size())])

message_bytes is the larger of a rank's input and output: of an all_gather the gathered output. Run on hardware: no.
"""
'''
_FOOTER = '''

def make_groups():
    """One group for each of GROUPS; every rank calls this in the same order."""
    import os

    import torch.distributed as dist
    import torch_npu

    missing = {name: value for name, value in PROCESS.items() if os.environ.get(name) != value}
    if missing:
        raise RuntimeError(f"export these before the job starts: {missing}")
    groups = {None: None}
    for name, config in GROUPS.items():
        options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
        options.hccl_config = dict(config)
        groups[name] = dist.new_group(backend="hccl", pg_options=options)
    return groups


def group_of(collective, message_bytes, dtype, n_ranks):
    """The group of a call; None, which is the job's own group, where nothing was measured."""
    for route in ROUTES:
        if route[:2] == (collective, n_ranks) and route[2] in (None, dtype) and route[3] <= message_bytes < route[4]:
            return route[5]
    return None
'''


@dataclass(frozen=True, slots=True)
class HcclConfigExporter:
    """``ProcessGroupHCCL.Options().hccl_config``."""

    name: str = "hccl-config"
    suffix: str = ".py"
    summary: str = "HCCL through torch_npu: a Python module with process groups and a function that picks one"
    library: str = "hccl-env"
    loses: tuple[str, ...] = (
        "the free choice: at most --max-groups groups are made, each for twice its buffer; the loss is printed",
        "our own schedules over HCCL's point-to-point, which need autotune's runtime: --format portfolio",
        "operations: a route for sum is also taken for min, max and prod",
    )
    checked: str = "its routes are run in every test run, its groups are not; run on hardware: no"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        backend = table.defaults.backend

        def translate(key: RuleKey, config: Config) -> Config | str:
            if config.algorithm.startswith(PORTABLE):
                return "our own schedules need autotune's runtime"
            return on_hccl(key, config, backend, request.soc)

        found, notes = portfolio_of(table, request, HcclFamily(), translate, self.name)
        if all(len(route.key.placement) == 1 for route in found.routes) and any(
            name == "hccl_algo" for group in found.groups for name, _ in group.options
        ):
            notes = (*notes, "all these sizes are of ranks on one server, where hccl_algo decides nothing")
        if request.soc is None:
            notes = (*notes, "whether the chips have these settings was not checked; --soc does")
        usage = ("cp {path} .", "# in the job: from the module's name import group_of, make_groups")
        return Exported(text=_text(found), notes=notes, usage=usage)


def _text(found: Portfolio) -> str:
    groups = {group.name: dict(group.options) for group in found.groups}
    routes = [
        (
            route.key.collective.value,
            route.key.n_ranks,
            None if route.key.dtype is None else route.key.dtype.value,
            route.from_bytes,
            route.to_bytes,
            found.groups[route.group].name,
        )
        for route in found.routes
    ]
    made = "".join(f"    {name!r}: {options!r},\n" for name, options in groups.items())
    rows = "".join(f"    {row!r},\n" for row in routes)
    return (
        f"{_HEADER}\nPROCESS = {dict(found.process)!r}\n\n"
        f"GROUPS = {{\n{made}}}\n\n"
        "# collective, ranks, element type (None: any), first size, first size after it, group\n"
        f"ROUTES = [\n{rows}]\n{_FOOTER}"
    )
