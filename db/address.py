"""From the words of ``--db`` or AUTOTUNE_DB to a database URL, and to a form that may be printed. Private to db.

Nothing is opened here; a password in the URL never reaches a message.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from ..errors import BackendUnavailable, StoreError

ELSEWHERE = "name another place with --db PATH or AUTOTUNE_DB"
INSTALL_PSYCOPG = "pip install 'psycopg[binary]'"
_ALLOWED = "give a file path, sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a store is.

    Args:
        path: the SQLite file, absolute and without symbolic links; None for a server or for memory.
        shown: for messages, without a password.
    """

    url: URL
    path: Path | None
    shown: str

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"


def parse_address(url_or_path: str) -> Address:
    """A file path, or a URL of an engine that the store knows.

    Raises:
        StoreError: not a path or URL, or an engine or option that the store does not know.
        BackendUnavailable: PostgreSQL without its driver.
    """
    scheme, separator, _ = url_or_path.partition("://")
    if not separator:
        return _file(url_or_path)
    try:
        url = make_url(url_or_path)
    except (ArgumentError, ValueError) as err:
        # The text may hold a password, so only its first word is repeated.
        raise StoreError(f"database URL {scheme}://... cannot be read", remedy=_ALLOWED) from err
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if url.host or url.query:
            raise StoreError(
                f"database URL {scheme}://... has a host or options, which a file cannot have", remedy=_ALLOWED
            )
        if url.database in (None, "", ":memory:"):
            return Address(url=URL.create("sqlite"), path=None, shown="the database in memory")
        return _file(str(url.database))
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        if importlib.util.find_spec("psycopg") is None:
            raise BackendUnavailable("PostgreSQL needs psycopg, which is not installed", remedy=INSTALL_PSYCOPG)
        url = url.set(drivername="postgresql+psycopg")
        # Options may hold a password too.
        return Address(url=url, path=None, shown=url.set(query={}).render_as_string(hide_password=True))
    raise StoreError(f"database URL {scheme}://... names an unknown engine", remedy=_ALLOWED)


def _file(text: str) -> Address:
    if not text or "\0" in text:
        raise StoreError(f"{text!r} is not the path of a database", remedy=_ALLOWED)
    # Links are followed here, so that the file is made private where it really is.
    path = Path(os.path.realpath(os.path.expanduser(text)))
    return Address(url=URL.create("sqlite", database=str(path)), path=path, shown=str(path))
