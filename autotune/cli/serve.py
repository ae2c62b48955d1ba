"""The server of tables and reports: serve."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ..errors import StoreError
from .options import Database, existing_store, settings_with, without_password
from .output import say

DEFAULT_PORT = 8642


def serve(
    db: Database = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; others than this host need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port; 0 for any that is free.")
    ] = DEFAULT_PORT,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="A secret that callers must know; else AUTOTUNE_TOKEN."),
    ] = None,
) -> None:
    """Serve tables and reports over HTTP.

    Jobs find their table with AUTOTUNE_TABLE=http://HOST:PORT, people their report with a browser at the same address.
    """
    from ..serve.server import serve as run_server

    settings = settings_with(db)
    token = settings.token
    if token_file is not None:
        from ..serve.secret import read_token

        token = read_token(token_file)
    store = existing_store(settings)
    if store is None:
        raise StoreError(
            f"there is no database {without_password(settings.db)}",
            remedy="name one with --db or AUTOTUNE_DB, or make one: autotune run",
        )
    with closing(store):
        run_server(store, host=host, port=port, token=token, said=say)
