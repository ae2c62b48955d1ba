"""The environment in which a library loads its plugin and the plugin finds the table.

In:  the plugin's name, the table and its path, the evidence that counts, this host's fingerprint.
Out: lines of a shell, in words that the plugins' C++ (csrc/machine.cc) reads.
May not touch: the environment itself, jobs.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ..errors import AutotuneError, TopologyMismatch
from ..table import TuningTable
from ..types import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A library that asks a tuner plugin.

    Args:
        variable: names the plugin's file to the library.
        switches: what else the library needs in its environment.
        where: what asks the plugin at all, for people.
    """

    name: str
    variable: str
    switches: tuple[str, ...]
    where: str

    @property
    def file_name(self) -> str:
        return f"libautotune_{self.name}_tuner.so"


PLUGINS = {
    plugin.name: plugin
    for plugin in (
        Plugin(
            name="hccl",
            variable="HCCL_TUNER_PLUGIN",
            switches=("HCCL_USE_NEW_SELECTOR=1",),
            where="HCCL on Ascend 950, for all_reduce, all_gather and reduce_scatter",
        ),
        Plugin(
            name="nccl",
            variable="NCCL_TUNER_PLUGIN",
            switches=(),
            where="NCCL from 2.19 on, and RCCL, for all_reduce, all_gather, reduce_scatter, broadcast and reduce",
        ),
    )
}
"""As given to ``autotune plugin``."""


def shared_library(plugin: Plugin) -> Path:
    """The plugin's file in this installation.

    Raises:
        AutotuneError: the package was built without it.
    """
    path = Path(__file__).with_name(plugin.file_name)
    if not path.exists():
        raise AutotuneError(
            f"{path} is missing: this autotune was built without its tuner plugins",
            remedy="pip install --force-reinstall mc2-autotune",
        )
    return path


def lines_for(
    plugin: Plugin,
    table: TuningTable,
    path: Path,
    *,
    evidence: Collection[Evidence],
    host: str | None,
    elsewhere: bool,
) -> tuple[str, ...]:
    """Lines for a shell that make a job's library load the plugin, and the plugin decide by the table.

    Args:
        evidence: kinds of rules that count.
        host: this host's fingerprint; None where it was not probed.
        elsewhere: the job runs on the machine of the table, wherever these lines are printed.

    Raises:
        TopologyMismatch: the table is of another machine than this host, which the plugin would refuse.
        AutotuneError: no such file in this installation, or a table without a rule that counts.
    """
    library = shared_library(plugin)
    if not any(rule.evidence in evidence for rules in table.rules.values() for rule in rules):
        kinds = sorted({rule.evidence.value for rules in table.rules.values() for rule in rules})
        raise AutotuneError(
            f"{path}: the table has no rule on {' or '.join(sorted(kind.value for kind in evidence))} evidence",
            remedy=f"autotune plugin {plugin.name} " + (" ".join(f"--evidence {k}" for k in kinds) or "--table PATH"),
        )
    foreign = table.fingerprint is not None and host is not None and not table.serves(host)
    if foreign and not elsewhere:
        raise TopologyMismatch(
            f"{path}: the table is of the machine {table.fingerprint}, and this host is {host}",
            remedy=f"autotune plugin {plugin.name} --elsewhere, for a job on the table's machine",
        )
    settings = [f"{plugin.variable}={shlex.quote(str(library))}", f"AUTOTUNE_TABLE={shlex.quote(str(path))}"]
    if set(evidence) != {Evidence.MEASURED}:
        settings.append(f"AUTOTUNE_EVIDENCE={','.join(kind.value for kind in Evidence if kind in evidence)}")
    if elsewhere and table.fingerprint is not None:
        settings.append(f"AUTOTUNE_FINGERPRINT={table.fingerprint}")
    return tuple(f"export {setting}" for setting in (*settings, *plugin.switches))
