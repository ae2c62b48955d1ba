"""The CSV of NCCL's and RCCL's example tuner plugin.

Source: NVIDIA/nccl, plugins/tuner/example/plugin.c. What that plugin does not say, and this file therefore avoids: it
takes an unknown collective for allreduce, an unknown algorithm for ring and an unknown protocol for simple; it cuts
lines at 255 characters, merges empty fields and keeps only ten; ``-1`` channels does not mean NCCL's own number, since
the plugin sets one channel first, also for a call that no row matches. So every row names its channels, and a last row
for each collective takes the calls that no other row matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..table import TuningTable
from ..units import MAX_BYTES
from .decisions import Line, lines_of, merged
from .exporter import PLAIN, Exported, Request, Wire, nothing_left
from .words import library

MAX_CHANNELS = 64
_HEADER = "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,registered"
_NO_REST = (
    "there is no row for calls that no other row matches, and the example plugin may give them a single channel; "
    "--channels N --protocol P adds one"
)


@dataclass(frozen=True, slots=True)
class NcclTunerExporter:
    """``NCCL_TUNER_CONFIG_FILE`` of the example plugin."""

    name: str = "nccl-tuner"
    suffix: str = ".csv"
    summary: str = "NCCL and RCCL with NVIDIA's or AMD's example tuner plugin"
    library: str = "nccl"
    loses: tuple[str, ...] = (
        "element types and operations: one list of ranges for each collective, rank and node count",
        "chunk sizes",
        "leaving the number of channels to NCCL: every row names it",
        "calls outside the measured sizes: a last row has to take them",
    )
    checked: str = (
        "loaded by NVIDIA's example plugin on a CPU, by hand, which answered as the rows say; read by a strict reader "
        "in every test run; run on hardware: no"
    )

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        def check(line: Line) -> str | None:
            return _objection(line, request)

        def written(line: Line) -> tuple[str, int]:
            return _protocol(line, request), _channels(line, request)

        words = library(self.library)
        lines, notes = lines_of(table, request, words, sees=lambda key: len(key.placement), check=check)
        if not lines:
            raise nothing_left(self.name, notes, table, request)
        rows = [_row(line, *written(line)) for line in merged(lines, written)]
        if request.channels is None or request.protocol is None:
            notes = (*notes, _NO_REST)
        else:
            names = [call.name for calls in words.calls.values() for call in calls]
            rows += _rest(names, request.protocol.value, request.channels)
            notes = (*notes, f"all other calls get ring, {request.protocol.value}, {request.channels} channels")
        usage = ("export NCCL_TUNER_PLUGIN=/path/to/libnccl-tuner-example.so", "export NCCL_TUNER_CONFIG_FILE={path}")
        return Exported(text="\n".join([_HEADER, *rows]) + "\n", notes=notes, usage=usage)


def _objection(line: Line, request: Request) -> str | None:
    protocol, channels = line.knobs.get("protocol"), line.knobs.get("channels")
    if protocol is None and request.protocol is None:
        return "the config names no protocol, and a row must: --protocol ll, ll128 or simple"
    if channels is None and request.channels is None:
        return "the config names no channels, and a row must: --channels N"
    allowed = line.facts.get("protocols", [wire.value for wire in Wire])
    if protocol is not None and protocol not in allowed:
        return f"protocol {protocol!r} is not one of {', '.join(allowed)}, those of {line.word}"
    if protocol is None and request.protocol is not None and request.protocol.value not in allowed:
        return f"{line.word} has no protocol {request.protocol.value}, only {', '.join(allowed)}"
    if channels is not None and not (isinstance(channels, int) and 1 <= channels <= MAX_CHANNELS):
        return f"{channels!r} channels are not a number from 1 to {MAX_CHANNELS}"
    return None


def _protocol(line: Line, request: Request) -> str:
    fallback = "" if request.protocol is None else request.protocol.value
    return str(line.knobs.get("protocol", fallback))


def _channels(line: Line, request: Request) -> int:
    return int(line.knobs.get("channels", request.channels or 0))


def _row(line: Line, protocol: str, channels: int) -> str:
    key = line.key
    sizes = f"{line.low},{line.high}"
    return f"{line.call.name},{sizes},{line.word},{protocol},{channels},{len(key.placement)},{key.n_ranks},-1,-1"


def _rest(names: Iterable[str], protocol: str, channels: int) -> list[str]:
    return [f"{name},0,{MAX_BYTES},ring,{protocol},{channels},-1,-1,-1,-1" for name in names]
