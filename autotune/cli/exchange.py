"""Commands between autotune and others: export a table, import a log."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import AutotuneError, UsageError
from .options import AsJson, Database, TableFile, existing_store, one_rank_count, settings_with, table_source
from .output import say, show, show_json, show_text, write_file

if TYPE_CHECKING:
    from ..exchange import Request
    from ..importing import Setting
    from ..settings import Settings
    from ..table import TuningTable
    from ..topology.graph import Topology
    from ..types import Config, Trial

_MAX_LOG_BYTES = 64 << 20


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
    db: Database = None,
) -> None:
    """Write the tuning table in another format.

    What the format cannot express, and which rules were left out, is said on standard error. docs/export.md has a
    section for each format.
    """
    from ..exchange import EXPORTERS
    from ..plan.plan import named

    exporter = named("format", to, EXPORTERS)
    settings = settings_with(db)
    source = table_source(table, settings)
    if source.why_shipped is not None:
        raise AutotuneError(f"there is no table to export: {source.why_shipped}", remedy="autotune run --quick")
    trials = _trials(source.table, settings) if exporter.name == "hccl-env" else ()
    request = _request(evidence, weights, channels, protocol, soc, base, trials)
    exported = exporter.render(source.table, request)
    if output is None:
        show_text(exported.text)
    else:
        write_file(output, exported.text)
        say(f"{output}: {source.origin} as {exporter.name}")
    for loss in exporter.loses:
        say(f"{exporter.name} cannot express {loss}")
    for note in exported.notes:
        say(note)
    if exported.usage:
        say("to use it:")
        for line in exported.usage:
            say(
                "  "
                + line.format(
                    path=shlex.quote(str(Path(output).absolute()) if output else f"/path/to/table{exporter.suffix}")
                )
            )


def import_(
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help="Files; several are repetitions of one setting.")],
    topology: Annotated[
        str,
        typer.Option("--topology", metavar="MACHINE", help="Where it was measured: as autotune simulate takes it."),
    ],
    log_format: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="One of those in docs/import.md; else recognised.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="NAME", help="Whose collectives ran: hccl, nccl, openmpi ...")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", metavar="NAME", help="What ran; else the library's own choice.")
    ] = None,
    settings_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A further setting it ran with; may be repeated."),
    ] = None,
    collective: Annotated[
        str | None, typer.Option("--collective", metavar="COLLECTIVE", help="Where the log does not say it.")
    ] = None,
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="N", help="Number of ranks; else the log's, else the topology's.")
    ] = None,
    hosts: Annotated[int | None, typer.Option("--hosts", metavar="N", help="Number of hosts of a machine.")] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", metavar="TYPE", help="Where the log does not say it; else float32.")
    ] = None,
    op: Annotated[
        str | None, typer.Option("--op", metavar="OP", help="Where the log does not say it; else sum.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="PATH", help="Write the table that all imports suggest.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Read logs of hccl_test, nccl-tests, OSU, IMB, CSV.

    Their figures go into the trial database. What they suggest is shown as a table; select() uses it when it is given
    that table and asked for imported evidence. No measured rule is ever replaced. docs/import.md has a section for
    each format.
    """
    from ..importing import import_logs
    from ..report.table_view import table_view
    from ..table import document, dump_table

    settings = settings_with(db)
    machine = _topology(topology, hosts, settings)
    setting = _setting(log_format, backend, algorithm, settings_, collective, ranks, dtype, op, machine)
    texts = {path: _text(path) for path in logs}
    found = import_logs(texts, machine, setting, settings, command=shlex.join(["autotune", *sys.argv[1:]]))
    if table is not None:
        write_file(table, dump_table(found.table))
    origin = table or f"imports of {found.database}"
    if as_json:
        facts = {"session_id": found.session.session_id, "repeated": found.repeated, "figures": found.n_figures}
        show_json({**facts, "notes": found.notes, "warnings": found.warnings, "table": document(found.table)})
    else:
        show(table_view(found.table, origin))
    _tell(f"session {found.session.session_id}", found.repeated, found.n_figures)
    for note in found.notes:
        say(f"note: {note}")
    for warning in found.warnings:
        say(f"warning: {warning}")


def _tell(session: str, repeated: bool, n_figures: int) -> None:
    if repeated:
        say(f"{n_figures} figures, which are there already: the same logs under the same setting are {session}")
    else:
        say(f"{n_figures} figures stored as {session}")


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
    from ..exchange.mpich import base_text

    try:
        return base_text(Path(path).read_bytes(), path)
    except OSError as err:
        raise UsageError(
            f"--base {path!r} cannot be read: {err.strerror}", remedy="give the libmpi.so of your MPICH"
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
        except StoreError:
            return ()
    sessions = {trial.session_id for trial in proving if trial.trial_id in named}
    return tuple(trial for trial in proving if trial.session_id in sessions)


def _topology(words: str, hosts: int | None, settings: Settings) -> Topology:
    from ..simulate import subject
    from ..topology.graph import Topology
    from ..topology.machines import machine

    place = subject(words, hosts, staging_bytes=settings.staging_bytes).place
    return place if isinstance(place, Topology) else machine(words, n_hosts=hosts or 1)


def _setting(
    log_format: str | None,
    backend: str | None,
    algorithm: str | None,
    knobs: Iterable[str] | None,
    collective: str | None,
    ranks: str | None,
    dtype: str | None,
    op: str | None,
    machine: Topology,
) -> Setting:
    from ..exchange.importing import IMPORTERS, Hints
    from ..importing import Setting
    from ..plan.plan import named
    from ..types import Collective, DType, ReduceOp

    if log_format is not None:
        named("format", log_format, IMPORTERS)
    hints = Hints(
        collective=None if collective is None else named("collective", collective, {c.value: c for c in Collective}),
        n_ranks=None if ranks is None else one_rank_count(ranks),
        dtype=None if dtype is None else named("dtype", dtype, {d.value: d for d in DType}),
        op=None if op is None else named("op", op, {o.value: o for o in ReduceOp}),
        seats=len(machine.rank_devices()) or None,
    )
    return Setting(format_name=log_format, backend=backend, config=_config(algorithm, knobs), hints=hints)


def _config(algorithm: str | None, knobs: Iterable[str] | None) -> Config | None:
    from ..exchange.words import LIBRARY_CHOICE
    from ..table.rule import check_config
    from ..types import Config, KnobValue

    if algorithm is None and not knobs:
        return None
    values: dict[str, KnobValue] = {}
    for word in knobs or ():
        name, equals, value = word.partition("=")
        if not (name and equals and value) or name in values:
            raise UsageError(f"--set {word!r} is not NAME=VALUE, each name once", remedy="--set HCCL_BUFFSIZE=400")
        values[name] = int(value) if value.isascii() and value.isdigit() and len(value) < 18 else value
    try:
        config = Config(
            algorithm=LIBRARY_CHOICE if algorithm is None else algorithm, knobs=tuple(sorted(values.items()))
        )
        check_config(config)
    except ValueError as err:
        raise UsageError(str(err), remedy="--algorithm NAME --set NAME=VALUE") from err
    return config


def _text(path: str) -> str:
    """A log's text.

    Raises:
        UsageError: it cannot be read, or is too large to be one.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(_MAX_LOG_BYTES + 1)
        if len(raw) > _MAX_LOG_BYTES:
            raise UsageError(f"{path}: is larger than 64 MiB", remedy="import the part of it that holds the rows")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: byte {err.start} is not UTF-8", remedy="give the log as UTF-8 text") from err
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or err
        raise UsageError(f"{path!r} cannot be read: {reason}", remedy="give the files of a benchmark's output") from err
