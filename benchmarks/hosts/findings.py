"""`python benchmarks hosts findings`: what the tuner finds on four hosts at 1 Gbit/s, by `autotune run` itself.

In:  nothing but the testbed. Out: a table of every cell, and which findings hold; 1 if one does not. May not touch: the
user's store and tables: each run has folders of its own, which are taken away.

Each scene is a job: four ranks on four hosts, and on two; eight on four; four with an error budget, and four on hosts
of which the second is five times slower. What is expected of them is written in `FINDINGS`: it follows from steps and
bytes. A slow link carries 2(n - 1)/n messages each way in a ring, two in the middle of a chain, and one at its end or
at a leaf of a tree, so the choice must change there, and the slow host stand last. Line rate counts the payload of TCP,
1448 of 1514 bytes a frame. A scene by itself (`--scene`) takes about a minute and a half.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.units import format_bytes, parse_bytes

from .launch import run_ranks
from .network import Network, made

RATE_MBIT, SLOW_MBIT = 1000, 200
PAYLOAD = 1448 / 1514
_WITHIN_S = 240.0
_HOLDS = "holds"
_AUTOTUNE = (sys.executable, "-P", "-m", "autotune")
_PLAN = """collectives: [all_reduce]
dtypes: [float32]
sizes: [{sizes}]
ranks: [{ranks}]
budget: {budget}
"""
_SMALL = ("recursive_doubling", "tree", "folded_leaders")  # the last: a tree with one step less
_GROUPED = ("hierarchical", "leaders", "two_leaders", "four_leaders", "eight_leaders", "folded_leaders")

Cell = Mapping[str, Any]  # Any: what JSON holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One job.

    Args:
        sizes: as of ``autotune run --sizes``.
        slow_mbit: as of `Network`.
        more: further words.
    """

    name: str
    per_host: tuple[int, ...]
    sizes: str
    budget: str
    slow_mbit: Mapping[int, int] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    @property
    def placement(self) -> str:
        return "+".join(map(str, self.per_host))


_LOSSY = ("--max-error", "0.1", "--distribution", "normal")
SCENES = (
    Scene(name="4x1", per_host=(1, 1, 1, 1), sizes="8,4K,1M,4M", budget="55s"),
    Scene(name="2x2", per_host=(2, 2), sizes="8,4K,64K,1M,4M", budget="45s"),
    Scene(name="4x2", per_host=(2, 2, 2, 2), sizes="8,4K,64K,1M", budget="60s"),
    Scene(name="lossy", per_host=(1, 1, 1, 1), sizes="64K,1M,4M", budget="55s", more=_LOSSY),
    Scene(name="slow", per_host=(1, 1, 1, 1), sizes="1M,4M", budget="50s", slow_mbit={1: SLOW_MBIT}),
)
Cells = Mapping[tuple[str, int], Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What must come out of some scenes."""

    scenes: tuple[str, ...]
    says: str
    holds: Callable[[Cells], bool]


def main(chosen: Sequence[str] = ()) -> int:
    """Measure; the exit code. To be called where namespaces may be made.

    Args:
        chosen: names of scenes; all, if there are none.

    Raises:
        UsageError: no such scene.
    """
    known = {scene.name: scene for scene in SCENES}
    if unknown := [name for name in chosen if name not in known]:
        raise UsageError(f"no scene {unknown[0]!r}", remedy=f"give --scene one of {', '.join(known)}")
    scenes = [known[name] for name in dict.fromkeys(chosen)] or list(SCENES)
    cells: dict[tuple[str, int], Cell] = {}
    start = time.monotonic()
    print(f"{'scene':22}{'size':>6}  {'choice':44}{'us [95 %]':>26}  {'over default':>18}  {'over ring':>18}  line")
    explained = ""
    for scene in scenes:
        with _folders() as environ:
            for cell in _tuned(scene, environ)["cells"]:
                cells[scene.name, cell["message_bytes"]] = cell
                print(_row(scene, cell), flush=True)
            if scene.slow_mbit:
                explained = _explained(scene, environ)
    print(f"\n{len(scenes)} runs, {time.monotonic() - start:.0f} s\n\n{explained}\n")
    judged = [finding for finding in FINDINGS if set(finding.scenes) <= {scene.name for scene in scenes}]
    verdicts = [_verdict(finding, cells) for finding in judged]
    for verdict, finding in zip(verdicts, judged, strict=True):
        print(f"{verdict:6} {finding.says}")
    return 0 if set(verdicts) <= {_HOLDS} else 1


def _verdict(finding: Finding, cells: Cells) -> str:
    try:
        return _HOLDS if finding.holds(cells) else "FAILS"
    except KeyError:  # a cell that was not decided in its budget
        return "open"


def _tuned(scene: Scene, environ: Mapping[str, str]) -> dict[str, Any]:
    """What `autotune run` on these hosts says, as JSON."""
    plan = Path(environ["AUTOTUNE_DATA_DIR"]).with_name("plan.yaml")
    plan.write_text(_PLAN.format(sizes=scene.sizes, ranks=sum(scene.per_host), budget=scene.budget))
    command = [*_AUTOTUNE, "run", str(plan), "--json", *scene.more]
    network = Network(
        n_hosts=len(scene.per_host), rate_mbit=RATE_MBIT, slow_mbit=scene.slow_mbit, prefix=f"at{os.getpid()}"
    )
    with made(network):
        text = run_ranks(network, command, within_s=_WITHIN_S, per_host=scene.per_host, environ=environ)
    found: dict[str, Any] = json.loads(text)
    return found


def _explained(scene: Scene, environ: Mapping[str, str]) -> str:
    """The first lines of `autotune explain` of the largest size, which name the choice and its rivals."""
    words = [*_AUTOTUNE, "explain", "all_reduce", scene.sizes.rpartition(",")[2], "--ranks", scene.placement]
    done = subprocess.run(
        words, env={**os.environ, **environ}, capture_output=True, text=True, timeout=_WITHIN_S, check=False
    )
    head = (done.stderr if done.returncode else done.stdout).splitlines()[:14]
    return "\n".join([f"$ autotune {' '.join(words[4:])}", *head, "..."])


@contextmanager
def _folders() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        own = {name: str(Path(folder) / name.lower()) for name in ("AUTOTUNE_DATA_DIR", "AUTOTUNE_CACHE_DIR")}
        yield {**own, "NO_COLOR": "1", "COLUMNS": "150"}


def line_share(cell: Cell) -> float:
    """The rate at which the fewest bytes of an all_reduce pass a host's interface, over what that can do."""
    n_hosts = len(cell["placement"])
    crossing_bytes = 2 * (n_hosts - 1) / n_hosts * cell["message_bytes"]
    return float(crossing_bytes / (cell["median_us"] * 1e-6) / (RATE_MBIT * 1e6 / 8 * PAYLOAD))


def _row(scene: Scene, cell: Cell) -> str:
    config = cell["config"]
    segment = "" if config["segment_bytes"] is None else f"/{format_bytes(config['segment_bytes'])}"
    knobs = "".join(f" {name}={value}" for name, value in config["knobs"].items())
    codec = "" if config["codec"] == "none" else f" {config['codec']}"
    choice = f"{config['algorithm']}{segment}{codec}{knobs}{' (default)' if cell['is_default'] else ''}"
    times = f"{cell['median_us']:.0f}{_interval(cell['low_us'], cell['high_us'], '.0f')}"
    size = format_bytes(cell["message_bytes"])
    rate = f"{line_share(cell):.0%}" if cell["message_bytes"] >= 64 << 10 and config["codec"] == "none" else ""
    gains = "  ".join(f"{_gain(cell, name):>18}" for name in ("gain", "ring_gain"))
    return f"{scene.name:22}{size:>6}  {choice:44}{times:>26}  {gains}  {rate}"


def _gain(cell: Cell, name: str) -> str:
    if cell[name] is None:
        return "-"
    return f"{cell[name]:.2f}{_interval(cell[f'{name}_low'], cell[f'{name}_high'], '.2f')}"


def _interval(low: float | None, high: float | None, form: str) -> str:
    """Nothing, where there were too few rounds for one."""
    return "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"


def _algorithm(cells: Cells, scene: str, size: str) -> str:
    return str(cells[scene, parse_bytes(size)]["config"]["algorithm"])


def _grouped(cells: Cells, scene: str, *sizes: str) -> bool:
    return all(_algorithm(cells, scene, size).startswith(_GROUPED) for size in sizes)


FINDINGS = (
    Finding(
        scenes=("4x1",),
        says="4x1: recursive doubling or tree up to 4 KiB",
        holds=lambda cells: all(_algorithm(cells, "4x1", size) in _SMALL for size in ("8", "4K")),
    ),
    Finding(
        scenes=("4x1",),
        says="4x1: 97 % of line rate from 1 MiB",
        holds=lambda cells: all(line_share(cells["4x1", parse_bytes(size)]) >= 0.97 for size in ("1M", "4M")),
    ),
    Finding(
        scenes=("2x2",),
        says="2x2: a hierarchical schedule from 64 KiB",
        holds=lambda cells: _grouped(cells, "2x2", "64K", "1M", "4M"),
    ),
    Finding(
        scenes=("2x2",),
        says="2x2: 1.4 times as fast as the fixed ring from 1 MiB",
        holds=lambda cells: all((cells["2x2", parse_bytes(size)]["ring_gain"] or 0) >= 1.4 for size in ("1M", "4M")),
    ),
    Finding(
        scenes=("4x2",),
        says="4x2: recursive doubling or tree up to 4 KiB",
        holds=lambda cells: all(_algorithm(cells, "4x2", size) in _SMALL for size in ("8", "4K")),
    ),
    Finding(
        scenes=("4x2",),
        says="4x2: a hierarchical schedule from 64 KiB",
        holds=lambda cells: _grouped(cells, "4x2", "64K", "1M"),
    ),
    Finding(
        scenes=("4x1", "lossy"),
        says="4x1, error up to 0.1: a lossy codec is at least 1.5 times as fast as what is lossless, from 1 MiB",
        holds=lambda cells: all(
            cells["lossy", parse_bytes(size)]["config"]["codec"] != "none"
            and 1.5 * cells["lossy", parse_bytes(size)]["median_us"] <= cells["4x1", parse_bytes(size)]["median_us"]
            for size in ("1M", "4M")
        ),
    ),
    Finding(
        scenes=("lossy",),
        says="4x1, error up to 0.1: a lossy codec from 1 MiB",
        holds=lambda cells: all(
            cells["lossy", parse_bytes(size)]["config"]["codec"] != "none" for size in ("1M", "4M")
        ),
    ),
    Finding(
        scenes=("slow",),
        says="4x1, second host slow: a chain or tree, at 1.3 times the speed of the fixed ring",
        holds=lambda cells: all(
            _algorithm(cells, "slow", size) in ("chain", "tree", "double_tree")
            and (cells["slow", parse_bytes(size)]["ring_gain"] or 0) >= 1.3
            for size in ("1M", "4M")
        ),
    ),
    Finding(
        scenes=("4x1", "slow"),
        says="4x1, second host slow: another choice than on equal links",
        holds=lambda cells: all(
            _algorithm(cells, "4x1", size) != _algorithm(cells, "slow", size) for size in ("1M", "4M")
        ),
    ),
)
