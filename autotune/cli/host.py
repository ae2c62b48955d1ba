"""Commands about this host: probe, doctor, settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..units import format_bytes
from .launched import on_every_rank
from .options import AsJson, one_rank_count, without_password
from .output import say, show, show_json, show_text, write_file

if TYPE_CHECKING:
    from ..launch import Job
    from ..settings import Settings
    from ..topology.graph import Topology


@on_every_rank
def probe(
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="More folders and files, after --from.")
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="PATH", help="Not this host: recordings or outputs of others, as folders or files."
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Write what was read to DIR/recording.json.")
    ] = None,
    no_measure: Annotated[bool, typer.Option("--no-measure", help="Read only, and measure nothing.")] = False,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="What carries the messages measured: native or torch.")
    ] = "native",
    as_json: AsJson = False,
    as_matrix: Annotated[bool, typer.Option("--matrix", help="Print the matrix of links, not the tree.")] = False,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the topology as an SVG file.")] = None,
    *,
    job: Job | None,
) -> None:
    """Read this host and measure between its cores.

    The fingerprint is remembered until the next boot, so that select() finds this host's table. With --from, build the
    topology of other hosts from recordings or pasted outputs.
    """
    from ..probing import gather

    if sources:
        _refuse("is about this host, and --from about others", save is not None, "--save")
        topology = gather([*sources, *(more or ())])
    else:
        _refuse("comes after --from", bool(more), "PATH")
        topology = _probed(job, save=save, measure=not no_measure, backend=backend)
    _show_topology(topology, as_json=as_json, as_matrix=as_matrix, svg=svg)


def _refuse(why: str, given: bool, what: str) -> None:
    if given:
        raise UsageError(f"{what!r} {why}", remedy="see the command's --help")


def _probed(job: Job | None, *, save: Path | None, measure: bool, backend: str) -> Topology:
    """This host, alone or in its rank table or job."""
    from ..probing import probe as probe_host
    from ..settings import read
    from ..topology.recordings import save as save_recording

    found = probe_host(read(), measure=measure, backend=backend, progress=say, job=job)
    if save is not None:
        say(f"recorded in {save_recording(found.recording, save)}")
    return found.cluster


def _show_topology(topology: Topology, *, as_json: bool, as_matrix: bool, svg: Path | None) -> None:
    """The topology in the form asked for, and as a picture if one is wanted."""
    import json

    from ..topology.document import to_json
    from ..topology.fingerprint import fingerprint
    from ..topology.matrix_view import matrix
    from ..topology.render import tree

    if svg is not None:
        from ..report.topology_picture import topology_svg

        write_file(str(svg), topology_svg(topology))
        say(f"drawn in {svg}")
    if as_json:
        show_json({"fingerprint": fingerprint(topology), "topology": json.loads(to_json(topology))})
    elif as_matrix and (text := matrix(topology)):
        show_text(text)
    elif as_matrix:
        say("no matrix: there are fewer than two accelerators, and fewer than two NUMA nodes")
    else:
        show_text(tree(topology))


@on_every_rank
def doctor(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="With --env: a start script, read and never run.")
    ] = None,
    env: Annotated[
        bool, typer.Option("--env", help="Check HCCL's settings instead, in FILE or in this environment.")
    ] = False,
    soc: Annotated[
        str | None, typer.Option("--soc", metavar="SOC", help="With --env: A2, A3, 910A, 950 or 310P; else probed.")
    ] = None,
    moe: Annotated[
        str | None,
        typer.Option("--moe", metavar="SHAPE", help="With --env: ranks=16,tokens=256,hidden=7168,experts=256,top_k=8."),
    ] = None,
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="N", help="The most ranks that will run here; else one a core.")
    ] = None,
    as_json: AsJson = False,
    *,
    job: Job | None,
) -> None:
    """Say what on this host would spoil a run.

    Each finding has its remedy. The exit code is 1 if a run would fail. Inside a launcher, say it of all its hosts, and
    what carries the messages of each pair of ranks. With --env, say which settings of HCCL are wrong, hang or do
    nothing (docs/ascend.md).
    """
    if env:
        from .hccl import lint_settings

        _refuse("is about this host, and --env about settings", ranks is not None, "--ranks")
        return lint_settings(file, soc, moe, as_json=as_json)
    _refuse("comes with --env", file is not None or soc is not None or moe is not None, "FILE, --soc or --moe")
    from ..report.findings import findings_view
    from ..settings import read
    from .diagnosing import job_rows, own_rows

    n_ranks = None if ranks is None else one_rank_count(ranks)
    rows = own_rows(read(), n_ranks) if job is None else job_rows(job, read(), n_ranks)
    if as_json:
        names = ("severity", "subject", "message", "remedy")
        show_json({"findings": [dict(zip(names, row, strict=True)) for row in rows]})
    else:
        show(findings_view(rows))
    if any(severity == "error" for severity, *_ in rows):
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
        "AUTOTUNE_TOKEN": None if found.token is None else "(set, not shown)",
        "AUTOTUNE_EVIDENCE": found.plugin_evidence,
        "AUTOTUNE_FINGERPRINT": found.plugin_fingerprint,
        "AUTOTUNE_MPI": None if found.mpi is None else str(found.mpi),
        "AUTOTUNE_NET_DEVICES": found.net_devices,
        "AUTOTUNE_NETWORK": found.network,
        "AUTOTUNE_DATA_DIR": str(found.data_dir),
        "AUTOTUNE_CACHE_DIR": str(found.cache_dir),
        "AUTOTUNE_RUNTIME_DIR": str(found.runtime_dir),
        "AUTOTUNE_TIMEOUT": f"{found.timeout_s:g}s",
        "AUTOTUNE_STAGING": format_bytes(found.staging_bytes),
        "AUTOTUNE_SYMMETRIC": format_bytes(found.symmetric_bytes),
        "AUTOTUNE_CHECK": str(int(found.check)),
        "AUTOTUNE_SECRET": None if found.secret is None else "(set, not shown)",
        "RANK": None if found.rank is None else str(found.rank),
        "WORLD_SIZE": None if found.n_ranks is None else str(found.n_ranks),
        "LOCAL_RANK": None if found.local_rank is None else str(found.local_rank),
        "LOCAL_WORLD_SIZE": None if found.n_local_ranks is None else str(found.n_local_ranks),
        "RANK_TABLE_FILE": None if found.rank_table is None else str(found.rank_table),
    }
