"""The command that makes a job's HCCL or NCCL load our tuner plugin: plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import AutotuneError
from .options import TableFile, settings_with
from .output import say, show_text

if TYPE_CHECKING:
    from ..settings import Settings


def plugin(
    library: Annotated[str, typer.Argument(metavar="LIBRARY", help="hccl or nccl.")],
    table: TableFile = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option("--evidence", metavar="KIND", help="measured, simulated or imported rules; may be repeated."),
    ] = None,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="The job runs on the table's machine, not on this host.")
    ] = False,
) -> None:
    """Print what makes a job's HCCL or NCCL choose by the table.

    For a shell: eval "$(autotune plugin nccl)". The library loads a plugin of ours, which reads the table once and then
    answers for every call. A table that it cannot use changes nothing, and its log says why. docs/plugins.md has more.
    """
    from ..plan.plan import named
    from ..plugins import PLUGINS, lines_for
    from ..runtime.arguments import admitted
    from ..table import load_table
    from ..topology.fingerprint import cached_fingerprint

    asked = named("library", library, PLUGINS)
    settings = settings_with(None)
    path = _table_path(table, asked.name, settings)
    lines = lines_for(
        asked,
        load_table(path),
        path,
        evidence=admitted(evidence or ("measured",)),
        host=cached_fingerprint(settings.cache_dir),
        elsewhere=elsewhere,
    )
    show_text("\n".join(lines) + "\n")
    say(f"asked by {asked.where}; {path} has to be readable by every rank, and the same on every host")


def _table_path(given: str | None, backend: str, settings: Settings) -> Path:
    """The file that the job reads: absolute.

    Raises:
        AutotuneError: there is none, or it is not a file of this host.
    """
    from ..table import newest_table_path
    from ..topology.fingerprint import cached_fingerprint

    named = given or settings.table
    if named is not None and "://" in named:
        raise AutotuneError(
            f"{named} is a URL, and a plugin reads files alone",
            remedy="download the table, and give its path: --table PATH",
        )
    if named is not None:
        return Path(named).absolute()
    own = cached_fingerprint(settings.cache_dir)
    found = None if own is None else newest_table_path(settings.data_dir, own, backend)
    if found is None:
        raise AutotuneError(
            f"this host has no table of {backend}", remedy=f"autotune plugin {backend} --table PATH, or autotune import"
        )
    return found.absolute()
