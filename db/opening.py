"""From the words of ``--db`` to transactions on a database. Private to db.

Two ways in: ``opened`` makes what is missing and upgrades what is old; ``found`` changes nothing, for looking.
"""

from __future__ import annotations

from ..errors import StoreError
from .address import Address, parse_address
from .engine import for_reading, make_engine
from .faults import as_store_errors
from .schema import Upgrade, prepare, version_of
from .transactions import Transactions


def opened(url_or_path: str, *, wait_s: float) -> tuple[Transactions, Upgrade]:
    """A database with this code's schema, and what was done to bring it there.

    Raises:
        AutotuneError: as ``open_store``.
    """
    address = parse_address(url_or_path)
    engine = make_engine(address, wait_s=wait_s)
    try:
        with as_store_errors(address.shown):
            done = prepare(engine, shown=address.shown, path=address.path)
    except BaseException:
        engine.dispose()
        raise
    return Transactions(engine, shown=address.shown, wait_s=wait_s), done


def found(url_or_path: str, *, wait_s: float) -> tuple[Transactions, int, Address]:
    """A database as it is, its schema version (0 for an empty one), and where it is.

    Raises:
        AutotuneError: as ``open_store``; a file that is not there, too.
    """
    address = parse_address(url_or_path)
    if address.path is not None and not address.path.exists():
        raise StoreError(
            f"there is no database {address.shown}", remedy="autotune run makes one; or name one: --db PATH"
        )
    engine = make_engine(address, wait_s=wait_s)
    try:
        # Not by Transactions, which would wait for a server that was never there.
        with as_store_errors(address.shown), for_reading(engine).begin() as connection:
            version = version_of(connection, address.shown)
    except BaseException:
        engine.dispose()
        raise
    return Transactions(engine, shown=address.shown, wait_s=wait_s), version, address
