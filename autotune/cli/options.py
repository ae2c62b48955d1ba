"""Options that several commands share, and the values that their words stand for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError

if TYPE_CHECKING:
    from ..db import TrialStore
    from ..runtime import Source
    from ..settings import Settings
    from ..types import Problem

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output, and nothing else.")]
Database = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="Trial database: a file or an SQLAlchemy URL; else AUTOTUNE_DB."),
]
TableFile = Annotated[
    str | None,
    typer.Option("--table", metavar="PATH", help="A table's file; else AUTOTUNE_TABLE, else the newest of this host."),
]
ElementType = Annotated[
    str, typer.Option("--dtype", metavar="TYPE", help="Element type; counts only where elements are combined.")
]
BufferMemory = Annotated[
    str,
    typer.Option("--memory", metavar="KIND", help="private, or symmetric: buffers from Communicator.allocate."),
]
Operation = Annotated[
    str, typer.Option("--op", metavar="OP", help="sum, prod, max, min or avg; counts only where elements are combined.")
]


BackendName = Annotated[
    str,
    typer.Option(
        "--backend", metavar="NAME", help="What carries messages: native, torch, gloo, hccl, openmpi or mpich."
    ),
]
DeviceName = Annotated[
    str, typer.Option("--device", metavar="NAME", help="Where tensors of --backend torch are: cpu, npu or cuda.")
]


def settings_with(db: str | None) -> Settings:
    """The environment's settings, with the database of ``--db`` if that is given.

    Raises:
        UsageError: a variable that cannot be meant.
    """
    from ..settings import read

    found = read()
    return found if db is None else replace(found, db=db)


def table_source(path: str | None, settings: Settings, backend: str = "native") -> Source:
    """The table of ``--table``, else the one of the backend that a job on this host would use.

    Raises:
        AutotuneError: the table cannot be used.
    """
    from ..runtime import find_table, open_table

    return find_table(settings, backend) if path is None else open_table(path)


def ranks_on_hosts(text: str) -> tuple[int, ...]:
    """``4`` on one host, ``2+2`` on two; ascending.

    Raises:
        UsageError: no rank count, or several on one host.
    """
    return tuple(sorted(one_rank_count(word) for word in text.split("+")))


def one_rank_count(text: str) -> int:
    """The rank count of commands that take one.

    Raises:
        UsageError: no rank count, or several.
    """
    from ..units import parse_ranks

    counts = parse_ranks(text)
    if len(counts) != 1:
        raise UsageError(f"--ranks {text!r} names {len(counts)} rank counts", remedy=f"give one: --ranks {counts[0]}")
    return counts[0]


def problem_of(
    collective: str,
    size: str,
    n_ranks: int,
    dtype: str,
    op: str,
    memory: str = "private",
    backend: str = "native",
    max_error: float | None = None,
    placement: tuple[int, ...] | None = None,
) -> Problem:
    """The problem that words name, its size rounded up to whole elements.

    Raises:
        UsageError: a word that cannot be meant.
    """
    from ..runtime.arguments import rule_key
    from ..types import Problem, round_up_message
    from ..units import parse_bytes

    key = rule_key(collective, n_ranks, dtype, op, placement, memory, max_error, backend)
    itemsize = key.dtype.itemsize if key.dtype else 1
    rounded = round_up_message(key.collective, parse_bytes(size), n_ranks, itemsize)
    return Problem(key=key, message_bytes=rounded)


def existing_store(settings: Settings) -> TrialStore | None:
    """The trial database, without making one where there is none.

    Raises:
        StoreError: there is one that cannot be used.
    """
    from ..db import open_store

    if "://" not in settings.db and not Path(settings.db).expanduser().exists():
        return None
    return open_store(settings.db)


def without_password(db: str) -> str:
    """A database's path or URL, fit to be shown."""
    return re.sub(r"://([^/:@]*):.*@", r"://\1:***@", db).partition("?")[0]
