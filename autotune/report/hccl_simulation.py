"""Where HCCL's own choice is predicted to lose, for people and for programs. Pure.

In:  `HcclPrediction` values. Out: renderables and JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..hccl.prediction import HcclPrediction, first_measurement
from ..types import RuleKey
from ..units import format_bytes, format_us
from .figures import config_fields, kind_text, problem_fields, ranks_text
from .grid import grid


def hccl_view(title: str, mode: str, predictions: Sequence[HcclPrediction]) -> RenderableType:
    """A line for each size, under a heading for each rank count, and what to measure first."""
    parts: list[RenderableType] = [Text(f"{title}, HCCL under {mode}, simulated; run on hardware: no")]
    headings = (">size", "HCCL's own choice", "as", ">time us", "best", ">time us", ">loses")
    for key, group in groupby(predictions, key=lambda one: one.problem.key):
        hosts = f" on {len(key.placement)} hosts" if len(key.placement) > 1 else ""
        parts += [Text(), Text(f"{kind_text(key)}, {ranks_text(key.n_ranks)}{hosts}", style="bold")]
        parts.append(grid(headings, map(_cells, group)))
    advice = (Text(line) for line in hccl_advice(predictions))
    return Group(*parts, Text(), *advice, *(Text(line, style="dim") for line in _LEGEND))


def hccl_advice(predictions: Sequence[HcclPrediction]) -> list[str]:
    """Which measurement would settle most, as a command for the machine itself."""
    worst = first_measurement(predictions)
    if worst is None:
        return ["nothing is predicted to beat HCCL's own choice here"]
    key = worst.problem.key
    size = format_bytes(worst.problem.message_bytes)
    dtype = "" if key.dtype is None else f" of {key.dtype.value}"
    return [
        f"measure first: {key.collective.value}{dtype} at {size} over {key.n_ranks} ranks, {worst.best[0]} against "
        f"HCCL's own choice: {format_us(worst.best[1])} and {format_us(worst.default_us)} us are predicted",
        f"{_launcher(key)}autotune run --backend hccl --collective {key.collective.value} --sizes {size} "
        f"--ranks {key.n_ranks}",
    ]


def _launcher(key: RuleKey) -> str:
    """What starts the command on several hosts, on each of them; HOST is the first one."""
    if len(key.placement) == 1:
        return ""
    words = f"--nnodes {len(key.placement)} --nproc-per-node {max(key.placement)} --rdzv-endpoint HOST:29500"
    return f"torchrun {words} --no-python "


_LEGEND = (
    "loses: HCCL's own choice over the best way, less one",
    "auto: HCCL's own choice, under the settings that follow; without any, nothing is predicted to be faster",
    "portable: each step is taken to cost as much as HCCL's least call, since nothing is published of its sends",
)


def _cells(one: HcclPrediction) -> tuple[str, ...]:
    best, best_us = one.best
    return (
        format_bytes(one.problem.message_bytes),
        one.choice.executor,
        _way(one),
        format_us(one.default_us),
        str(best),
        format_us(best_us),
        f"{100 * one.loss:.0f} %",
    )


def _way(one: HcclPrediction) -> str:
    """The schedule or algorithm of HCCL's branch, and its engine."""
    return f"{one.choice.schedule or one.choice.level1} on {one.choice.engine}"


def hccl_document(title: str, mode: str, predictions: Sequence[HcclPrediction]) -> dict[str, Any]:
    """JSON; Any: its tree."""
    return {
        "topology": title,
        "mode": mode,
        "evidence": "simulated",
        "run_on_hardware": False,
        "predictions": [
            {
                **problem_fields(one.problem),
                "executor": one.choice.executor,
                "way": _way(one),
                "source": one.choice.source,
                "default_us": one.default_us,
                "best": config_fields(one.best[0]),
                "best_us": one.best[1],
                "loss": one.loss,
                "configs": [{"config": config_fields(config), "time_us": time_us} for config, time_us in one.priced],
            }
            for one in predictions
        ],
        "advice": hccl_advice(predictions),
    }
