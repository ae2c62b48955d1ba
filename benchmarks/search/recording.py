"""A recorded sweep as a file: every sample of every config, and what taking it cost.

In:  samples. Out: a compressed ``.npz`` of a few hundred kilobytes, readable with numpy alone and without pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.topology.devices import Cache
from autotune.topology.document import from_json
from autotune.types import Collective, Config, Problem
from autotune.units import format_bytes, parse_bytes

from .sweeps import Cells, config_of, default_among, problem_of

RECORDINGS = Path(__file__).parent / "recordings"
"""A folder for each machine."""
MACHINE = "xeon"
"""The one that is replayed if no other is named."""
HALVES = 2
"""Round r of a recording belongs to half r mod 2."""
_TIME_BITS, _COST_BITS = 12, 8  # to 0.02 and 0.4 %
Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a sweep measured.

    Args:
        topology: of the machine, as `autotune probe --json` writes it; prices come from it.
        facts: the machine and the day, for people.
        time_us: (config, round) of each cell, in the order of its configs; NaN where the config failed.
        cost_s: seconds that the sample took, with all that belongs to it; the same shape.
    """

    name: str
    backend: str
    n_hosts: int
    topology: str
    facts: Mapping[str, str]
    cells: Cells
    time_us: Mapping[Problem, Samples]
    cost_s: Mapping[Problem, Samples]

    @property
    def n_rounds(self) -> int:
        return next(iter(self.time_us.values())).shape[1]

    def default(self, problem: Problem) -> Config:
        """What is shipped for a host with such caches, by the name under which it was listed."""
        return default_among(problem, self.cells[problem], l2_bytes=_l2_bytes(self.topology))

    def reordered(self, number: int) -> Recording:
        """The same rounds in another order, so that other rounds race, confirm and judge; 0 is as recorded.

        A round stays whole, over all cells. What a sample cost stays where it was: it is no luck of the round.
        """
        if number == 0:
            return self
        order = np.random.default_rng(number).permutation(self.n_rounds)
        return replace(self, time_us={problem: times[:, order] for problem, times in self.time_us.items()})


@cache
def _l2_bytes(topology: str) -> int | None:
    """The smallest second-level cache, where the topology knows any."""
    devices = from_json(topology).devices if topology else ()
    return min((d.size_bytes for d in devices if isinstance(d, Cache) and d.level == 2), default=None)


def save(recording: Recording, path: Path) -> None:
    """Write the file."""
    cells = [
        {
            "collective": problem.key.collective.value,
            "ranks": problem.key.n_ranks,
            "bytes": format_bytes(problem.message_bytes),
            "configs": [str(config) for config in configs],
        }
        for problem, configs in recording.cells.items()
    ]
    about = {
        "name": recording.name,
        "backend": recording.backend,
        "hosts": recording.n_hosts,
        "facts": dict(recording.facts),
        "topology": recording.topology,
        "cells": cells,
    }
    np.savez_compressed(
        path,
        about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        time_us=_rounded([recording.time_us[problem] for problem in recording.cells], _TIME_BITS),
        cost_s=_rounded([recording.cost_s[problem] for problem in recording.cells], _COST_BITS),
    )


def _rounded(samples: Sequence[Samples], bits: int) -> Samples:
    """To so many binary digits, so that the rest, which is zeros, takes no room."""
    mantissas, exponents = np.frexp(np.concatenate(samples))
    return np.ldexp(np.round(mantissas * 2**bits) / 2**bits, exponents).astype(np.float32)


def load(path: Path) -> Recording:
    """Read the file."""
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        time_us, cost_s = file["time_us"], file["cost_s"]
    cells: dict[Problem, tuple[Config, ...]] = {}
    times: dict[Problem, Samples] = {}
    costs: dict[Problem, Samples] = {}
    at, n_hosts = 0, about.get("hosts", 1)
    for cell in about["cells"]:
        configs = tuple(config_of(text) for text in cell["configs"])
        problem = problem_of(
            about["backend"],
            Collective(cell["collective"]),
            cell["ranks"],
            parse_bytes(cell["bytes"]),
            n_hosts=n_hosts,
        )
        cells[problem] = configs
        times[problem], costs[problem] = (array[at : at + len(configs)] for array in (time_us, cost_s))
        at += len(configs)
    return Recording(
        name=about["name"],
        backend=about["backend"],
        n_hosts=n_hosts,
        topology=about["topology"],
        facts=about["facts"],
        cells=cells,
        time_us=times,
        cost_s=costs,
    )
