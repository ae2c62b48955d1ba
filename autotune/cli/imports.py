"""The command that reads another program's logs: import."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .options import AsJson, Database, one_rank_count, settings_with
from .output import say, show, show_json, write_file

if TYPE_CHECKING:
    from ..importing import Setting
    from ..settings import Settings
    from ..topology.graph import Topology
    from ..types import Config

_MAX_LOG_BYTES = 64 << 20


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
        UsageError: it cannot be read, is empty, or too large to be one.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(_MAX_LOG_BYTES + 1)
        if len(raw) > _MAX_LOG_BYTES:
            raise UsageError(f"{path}: is larger than 64 MiB", remedy="import the part of it that holds the rows")
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: byte {err.start} is not UTF-8", remedy="give the log as UTF-8 text") from err
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or err
        raise UsageError(f"{path!r} cannot be read: {reason}", remedy="give the files of a benchmark's output") from err
    if not text.strip():
        raise UsageError(f"{path}: is empty", remedy="give the files of a benchmark's output")
    return text
