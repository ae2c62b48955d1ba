"""Commands about this host: probe, doctor, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..units import format_bytes
from .options import AsJson, one_rank_count, without_password
from .output import say, show, show_json, show_text

if TYPE_CHECKING:
    from ..settings import Settings


def probe(as_json: AsJson = False) -> None:
    """Read this host and measure between its cores.

    The fingerprint is remembered until the next boot, so that select() finds this host's table.
    """
    import json

    from ..probing import probe as probe_host
    from ..settings import read
    from ..topology.document import to_json
    from ..topology.render import tree

    found = probe_host(read(), progress=say)
    if as_json:
        show_json({"fingerprint": found.fingerprint, "topology": json.loads(to_json(found.topology))})
    else:
        show_text(tree(found.topology))


def doctor(
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="N", help="The most ranks that will run here; else one a core.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what on this host would spoil a run.

    Each finding has its remedy. The exit code is 1 if a run would fail.
    """
    from ..doctor import Severity, diagnose
    from ..report.findings import findings_view

    found = diagnose(n_ranks=None if ranks is None else one_rank_count(ranks))
    rows = [(finding.severity.value, finding.subject, finding.message, finding.remedy) for finding in found]
    if as_json:
        names = ("severity", "subject", "message", "remedy")
        show_json({"findings": [dict(zip(names, row, strict=True)) for row in rows]})
    else:
        show(findings_view(rows))
    if any(finding.severity is Severity.ERROR for finding in found):
        raise typer.Exit(1)


def settings(as_json: AsJson = False) -> None:
    """List the variables that autotune reads, and their values."""
    from ..report.findings import settings_view
    from ..settings import SETTINGS, read

    values = _values_in_force(read())
    rows = [(setting.name, values[setting.name], setting.default, setting.summary) for setting in SETTINGS]
    if as_json:
        names = ("name", "value", "default", "summary")
        show_json({"settings": [dict(zip(names, row, strict=True)) for row in rows]})
    else:
        show(settings_view(rows))


def _values_in_force(found: Settings) -> dict[str, str | None]:
    """What the settings come to, by the variable's name; a password in a URL is left out."""
    return {
        "AUTOTUNE_TABLE": found.table,
        "AUTOTUNE_DB": without_password(found.db),
        "AUTOTUNE_DATA_DIR": str(found.data_dir),
        "AUTOTUNE_CACHE_DIR": str(found.cache_dir),
        "AUTOTUNE_RUNTIME_DIR": str(found.runtime_dir),
        "AUTOTUNE_TIMEOUT": f"{found.timeout_s:g}s",
        "AUTOTUNE_STAGING": format_bytes(found.staging_bytes),
        "AUTOTUNE_CHECK": str(int(found.check)),
        "RANK": None if found.rank is None else str(found.rank),
        "WORLD_SIZE": None if found.n_ranks is None else str(found.n_ranks),
    }
