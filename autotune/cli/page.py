"""The report as one HTML page: report."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import AutotuneError
from .options import BackendName, Database, TableFile, existing_store, settings_with, table_source, without_password
from .output import say, write_file

if TYPE_CHECKING:
    from ..report.page.contents import Contents
    from ..runtime import Source
    from ..settings import Settings


def report(
    output: Annotated[
        str, typer.Option("--output", metavar="FILE", help="The page to write; it needs nothing beside it.")
    ] = "report.html",
    backend: BackendName = "native",
    table: TableFile = None,
    db: Database = None,
) -> None:
    """Write this host's table with its proof as one page.

    Winners by size and ranks, the time of every algorithm, how fast the search was, what stayed at the default and why,
    the topology, and how to do it again. The page loads nothing, and can be sent as it is.
    """
    from ..report.page.render import report_page

    settings = settings_with(db)
    source = table_source(table, settings, backend)
    if source.why_shipped is not None:
        raise AutotuneError(
            f"there is nothing to report: {source.why_shipped}", remedy="autotune run, or name a table with --table"
        )
    write_file(output, report_page(_contents(source, settings)))
    say(f"written to {output}")


def _contents(source: Source, settings: Settings) -> Contents:
    from ..serve.machines import report_contents

    store = existing_store(settings)
    fingerprint = source.table.fingerprint
    if store is None:
        missing = f"There is no database {without_password(settings.db)}, so no trials are shown."
        return report_contents(source.table, source.origin, None, fingerprint, no_store=missing)
    with closing(store):
        return report_contents(source.table, source.origin, store, fingerprint)
