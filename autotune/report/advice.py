"""What a model's step sends and takes, for people and for programs. Pure.

In:  an `Advice`. Out: renderables and JSON.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..measure import algbw_gb_per_s
from ..models import KvCache, ModelCall, ModelShape, Split, Step
from ..types import DType
from ..units import format_bytes, format_us
from .figures import UNKNOWN
from .grid import Cell, grid

_SENDS = "send, recv"


class TimeSource(enum.Enum):
    """Where a time is from."""

    MEASURED = "tuned"
    INTERPOLATED = "tuned, between two sizes"
    PREDICTED = "predicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """A call with what one of it takes; None where nothing tells."""

    call: ModelCall
    time_us: float | None
    config: str | None
    source: TimeSource | None

    @property
    def step_us(self) -> float | None:
        """All of it in a step."""
        return None if self.time_us is None else self.time_us * self.call.calls_per_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another way to do it, or the one that was asked for.

    Args:
        step_us: of its calls in one step; None where nothing tells.
        memory_bytes: that it costs each rank; None where it cannot be done.
        note: what the memory is, or why it cannot be done.
    """

    name: str
    chosen: bool
    step_us: float | None
    memory_bytes: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a step of a model, split in one way, sends and costs each rank."""

    model: ModelShape
    split: Split
    step: Step
    dtype: DType
    calls: tuple[TimedCall, ...]
    alternatives: tuple[Alternative, ...]
    kv_cache: KvCache
    warnings: tuple[str, ...]

    @property
    def step_us(self) -> float | None:
        """Of all its collectives, one after the other; None where the time of one is not known."""
        known = [one.step_us for one in self.calls if one.call.collective is not None]
        return None if None in known else sum(us for us in known if us is not None)


def advice_view(advice: Advice) -> RenderableType:
    """The calls, then the alternatives, then what would not fit."""
    headings = ("where", "call", ">ranks", ">size", ">calls", ">us each", ">ms a step", ">algbw", "config", "time is")
    parts: list[RenderableType] = [Text(_title(advice), style="bold"), grid(headings, map(_row, advice.calls))]
    if advice.step_us is not None:
        parts.append(Text(f"all of them, one after the other: {_ms(advice.step_us)} ms a step"))
    if advice.alternatives:
        rows = [
            (
                ("* " if one.chosen else "  ") + one.name,
                UNKNOWN if one.step_us is None else _ms(one.step_us),
                UNKNOWN if one.memory_bytes is None else format_bytes(one.memory_bytes),
                one.note,
            )
            for one in advice.alternatives
        ]
        parts += [Text(), grid(("  what", ">ms a step", ">memory a rank", "which is"), rows)]
        parts.append(Text("*: as asked", style="dim"))
    parts += [Text(f"warning: {words}", style="bold") for words in advice.warnings]
    return Group(*parts)


def advice_document(advice: Advice) -> dict[str, Any]:
    """The same for programs."""
    return {
        "model": advice.model.name,
        "source": advice.model.source,
        "dtype": advice.dtype.value,
        "split": {
            "tensor": advice.split.tensor,
            "sequence": advice.split.sequence,
            "pipeline": advice.split.pipeline,
            "expert": advice.split.expert,
        },
        "step": {
            "phase": advice.step.phase.value,
            "batch": advice.step.batch,
            "sequence": advice.step.sequence,
            "micro_batches": advice.step.micro_batches,
        },
        "calls": [
            {
                "where": one.call.where,
                "collective": None if one.call.collective is None else one.call.collective.value,
                "n_ranks": one.call.n_ranks,
                "message_bytes": one.call.message_bytes,
                "dtype": one.call.dtype.value,
                "calls_per_step": one.call.calls_per_step,
                "time_us": one.time_us,
                "config": one.config,
                "source": None if one.source is None else one.source.value,
            }
            for one in advice.calls
        ],
        "step_us": advice.step_us,
        "alternatives": [
            {
                "name": one.name,
                "chosen": one.chosen,
                "step_us": one.step_us,
                "memory_bytes": one.memory_bytes,
                "note": one.note,
            }
            for one in advice.alternatives
        ],
        "kv_cache": {
            "own_bytes": advice.kv_cache.own_bytes,
            "layer_bytes": advice.kv_cache.layer_bytes,
            "gathered_bytes": advice.kv_cache.gathered_bytes,
        },
        "warnings": list(advice.warnings),
    }


def _title(advice: Advice) -> str:
    split, step = advice.split, advice.step
    parts = [f"{advice.model.name}, {step.phase.value}: batch {step.batch}, sequence {step.sequence}"]
    if step.micro_batches > 1:
        parts.append(f"{step.micro_batches} micro-batches")
    parts.append(f"{advice.dtype.value}; tensor parallel {split.tensor}")
    parts += ["sequence parallel"] * split.sequence
    parts += [f"pipeline parallel {split.pipeline}"] * (split.pipeline > 1)
    parts += [f"expert parallel {split.expert}"] * (split.expert > 1)
    return ", ".join(parts)


def _row(one: TimedCall) -> tuple[Cell, ...]:
    call = one.call
    return (
        call.where,
        _SENDS if call.collective is None else call.collective.value,
        str(call.n_ranks),
        format_bytes(call.message_bytes),
        str(call.calls_per_step),
        UNKNOWN if one.time_us is None else format_us(one.time_us),
        UNKNOWN if one.step_us is None else _ms(one.step_us),
        UNKNOWN if one.time_us is None else f"{algbw_gb_per_s(call.message_bytes, one.time_us):.2f}",
        one.config or UNKNOWN,
        UNKNOWN if one.source is None else one.source.value,
    )


def _ms(time_us: float) -> str:
    return f"{time_us / 1e3:.0f}" if time_us >= 1e5 else f"{time_us / 1e3:.3g}"
