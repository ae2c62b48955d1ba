"""Commands about the trial database: db status, upgrade, prune, merge, optuna-export."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import StoreError, UsageError
from .options import AsJson, Database, existing_store, settings_with, without_password
from .output import say, show, show_json, show_text

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Look after the trial database: status, schema, size, merging.",
)


@app.command()
def status(db: Database = None, as_json: AsJson = False) -> None:
    """Say what is in the database. Nothing is changed, not even an old schema."""
    from ..db import status as look
    from ..report.grid import listing

    found = look(settings_with(db).db)
    sessions = {state.value: n for state, n in found.sessions.items()}
    if as_json:
        show_json({**asdict(found), "sessions": sessions, "is_current": found.is_current})
        return
    schema = "empty" if found.schema_version == 0 else f"version {found.schema_version}"
    if not found.is_current:
        schema += f"; this autotune writes version {found.known_version}: autotune db upgrade"
    rows = [
        ("database", found.shown),
        ("engine", found.engine),
        ("schema", schema),
        ("size", f"{found.size_bytes / (1 << 20):.1f} MiB"),
        ("sessions", ", ".join(f"{n} {state}" for state, n in sessions.items())),
        ("last session", found.last_session_at or "none"),
        *((name, str(n)) for name, n in found.rows.items() if name != "sessions"),
    ]
    show(listing(rows))


@app.command()
def upgrade(db: Database = None, as_json: AsJson = False) -> None:
    """Bring an old database to this autotune's schema.

    A SQLite file is copied first, to NAME.vN beside it. For a server, take a backup with pg_dump. Every command that
    opens an old database does the same.
    """
    from ..db import upgrade_store

    done = upgrade_store(settings_with(db).db)
    backup = None if done.backup is None else str(done.backup)
    if as_json:
        show_json({"before": done.before, "after": done.after, "backup": backup})
    elif done.before == done.after:
        _tell(f"nothing to do: the schema is version {done.after}")
    else:
        kept = "" if backup is None else f"; as it was before: {backup}"
        _tell(f"upgraded from version {done.before} to {done.after}{kept}")


@app.command()
def prune(
    older_than: Annotated[
        int, typer.Option("--older-than", metavar="DAYS", help="Keep what is younger than so many days; else 90.")
    ] = 90,
    keep_tables: Annotated[
        int, typer.Option("--keep-tables", metavar="N", help="Versions to keep of each machine's table; else 3.")
    ] = 3,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only say what would be.")] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Delete old trials that no kept table needs.

    What proves the rules of the kept tables stays, the rivals that explain shows included. Without --yes nothing is
    deleted.
    """
    from ..db import prune as delete

    for name, value in (("--older-than", older_than), ("--keep-tables", keep_tables)):
        if value < 1:
            raise UsageError(f"{name} {value} is below 1", remedy=f"{name} 1")
    gone = delete(settings_with(db).db, older_than_days=older_than, keep_tables=keep_tables, really=yes)
    if as_json:
        show_json({**asdict(gone), "deleted": yes})
        return
    counts = ", ".join(f"{n} {name}" for name, n in asdict(gone).items())
    _tell(f"deleted: {counts}" if yes else f"would be deleted: {counts}; with --yes they are")


@app.command()
def merge(
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The database to take from: a file or a URL.")],
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Take over what another database has, and this one has not.

    Trials are known by their content, so merging again adds nothing. OTHER is not changed. The next run on a machine
    makes its table from all of them.
    """
    from ..db import merge as take_over

    new = take_over(settings_with(db).db, other)
    if as_json:
        show_json(asdict(new))
        return
    _tell(
        f"new: {new.sessions} sessions, {new.trials} trials, {new.samples} samples, {new.cells} cells, "
        f"{new.tables} tables; known: {new.known_sessions} sessions"
    )
    if new.tables_left:
        _tell(f"{new.tables_left} tables name trials that did not come along, and were left")


@app.command("optuna-export")
def optuna_export(
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="The new SQLite file.")],
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", metavar="HEX", help="Only this machine's; else all machines'.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Write the trials as a storage of Optuna.

    One study for each machine, collective, type, rank count and size, from the newest session that is through with it.
    Look at them with: optuna-dashboard sqlite:///FILE
    """
    from ..db.optuna_export import export_to_optuna

    settings = settings_with(db)
    store = existing_store(settings)
    if store is None:
        raise StoreError(f"there is no database {without_password(settings.db)}", remedy="autotune run makes one")
    with closing(store):
        studies = export_to_optuna(store, output, fingerprint=fingerprint, said=say)
    if as_json:
        show_json({"output": str(output), "studies": studies})
    else:
        _tell(
            f"{len(studies)} studies of {sum(studies.values())} trials: optuna-dashboard sqlite:///{output.absolute()}"
        )


def _tell(line: str) -> None:
    show_text(f"{line}\n")
