"""The command that writes a table in another program's format: export."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import AutotuneError, UsageError
from .options import BackendName, Database, TableFile, existing_store, settings_with, table_source
from .output import say, show_text, write_file

if TYPE_CHECKING:
    from ..exchange import Request
    from ..settings import Settings
    from ..table import TuningTable
    from ..types import Trial

_OF_ALL_TIMES = (
    "hccl-env",
    "hccl-config",
    "portfolio",
    "openmpi",
    "openmpi-json",
)  # formats that weigh what was not chosen, too


def export(
    to: Annotated[str, typer.Option("--format", metavar="FORMAT", help="One of those in docs/export.md.")],
    output: Annotated[
        str | None, typer.Option("--output", metavar="PATH", help="Write a file instead of standard output.")
    ] = None,
    table: TableFile = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option("--evidence", metavar="KIND", help="measured, simulated or imported rules; may be repeated."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="SIZE=N,...", help="How much sizes count where one choice serves all."),
    ] = None,
    channels: Annotated[
        int | None, typer.Option("--channels", metavar="N", help="nccl-tuner: channels, where a rule names none.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", metavar="P", help="nccl-tuner: ll, ll128 or simple, where a rule names none."),
    ] = None,
    soc: Annotated[
        str | None, typer.Option("--soc", metavar="SOC", help="HCCL: A2, A3, 910A, 950 or 310P; checks legality.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="PATH", help="mpich: libmpi.so or generic.json, whose tree is kept elsewhere."),
    ] = None,
    max_groups: Annotated[
        int, typer.Option("--max-groups", metavar="K", min=1, help="portfolio, hccl-config: the most process groups.")
    ] = 4,
    max_group_memory: Annotated[
        str | None,
        typer.Option("--max-group-memory", metavar="SIZE", help="The same: their memory together, on each rank."),
    ] = None,
    backend: BackendName = "native",
    db: Database = None,
) -> None:
    """Write the tuning table in another format.

    What the format cannot express, and which rules were left out, is said on standard error. docs/export.md has a
    section for each format.
    """
    from ..exchange import EXPORTERS
    from ..plan.plan import named
    from ..units import parse_bytes

    exporter = named("format", to, EXPORTERS)
    settings = settings_with(db)
    source = table_source(table, settings, backend)
    if source.why_shipped is not None:
        raise AutotuneError(f"there is no table to export: {source.why_shipped}", remedy="autotune run --quick")
    trials = _trials(source.table, settings) if exporter.name in _OF_ALL_TIMES else ()
    request = replace(
        _request(evidence, weights, channels, protocol, soc, base, trials),
        max_groups=max_groups,
        max_group_memory_bytes=None if max_group_memory is None else parse_bytes(max_group_memory),
    )
    exported = exporter.render(source.table, request)
    path = Path(output).absolute() if output else Path(f"/path/to/table{exporter.suffix}")
    if output is None:
        show_text(exported.text)
    else:
        for file, text in exported.files(path).items():
            write_file(str(file), text)
            say(f"{file}: {source.origin} as {exporter.name}")
    for loss in exporter.loses:
        say(f"{exporter.name} cannot express {loss}")
    if output is None and exported.beside is not None:
        say(f"{exporter.name} needs a second file: --output FILE writes both")
    for note in exported.notes:
        say(note)
    if exported.usage:
        say("to use it:")
        for line in exported.lines(path):
            say(f"  {line}")


def _request(
    evidence: Iterable[str] | None,
    weights: str | None,
    channels: int | None,
    protocol: str | None,
    soc: str | None,
    base: str | None,
    trials: tuple[Trial, ...],
) -> Request:
    from ..exchange import Request, Soc, Wire
    from ..exchange.nccl_tuner import MAX_CHANNELS
    from ..plan.plan import named
    from ..runtime.arguments import admitted

    if channels is not None and not 1 <= channels <= MAX_CHANNELS:
        raise UsageError(f"--channels {channels} is not from 1 to {MAX_CHANNELS}", remedy="--channels 16")
    return Request(
        evidence=admitted(evidence or ("measured",)),
        trials=trials,
        weights=_weights(weights),
        channels=channels,
        protocol=None if protocol is None else named("protocol", protocol, {wire.value: wire for wire in Wire}),
        soc=None if soc is None else named("SoC", soc, {chip.value: chip for chip in Soc}),
        base=None if base is None else _base(base),
    )


def _weights(text: str | None) -> dict[int, float]:
    from ..units import parse_bytes

    found: dict[int, float] = {}
    for part in text.split(",") if text else ():
        size, equals, number = part.partition("=")
        if not (equals and number.strip().replace(".", "", 1).isdigit() and number.isascii() and float(number) > 0.0):
            raise UsageError(f"weight {part!r} is not SIZE=NUMBER", remedy="--weights 1MiB=3,64MiB=1")
        found[parse_bytes(size)] = float(number)
    return found


def _base(path: str) -> str:
    from ..exchange.mpich import base_text, linked

    file = Path(path)
    try:
        raw = file.read_bytes()
        if (library := linked(raw)) is not None:
            file = file.parent / library
            raw = file.read_bytes()
        return base_text(raw, str(file))
    except OSError as err:
        raise UsageError(
            f"--base {str(file)!r} cannot be read: {err.strerror}", remedy="give the libmpi.so of your MPICH"
        ) from err


def _trials(table: TuningTable, settings: Settings) -> tuple[Trial, ...]:
    """All trials of the sessions that prove the table's rules; none where the database is not at hand."""
    from ..errors import StoreError

    store = existing_store(settings)
    if store is None:
        return ()
    with closing(store):
        named = {trial_id for rules in table.rules.values() for rule in rules for trial_id in rule.trial_ids}
        try:
            proving = [trial for trial in store.trials() if trial.problem.key in table.rules]
        except StoreError as err:
            say(f"{err.message}: the table is exported without its trials")
            return ()
    sessions = {trial.session_id for trial in proving if trial.trial_id in named}
    return tuple(trial for trial in proving if trial.session_id in sessions)
