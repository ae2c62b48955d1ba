"""Predicted times: simulate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .options import AsJson, Database, ElementType, Operation, existing_store, settings_with
from .output import say, show, show_json

if TYPE_CHECKING:
    from ..settings import Settings
    from ..simulate import Subject


def simulate(
    topology: Annotated[
        str,
        typer.Option(
            "--topology", "--machine", metavar="MACHINE", help="A known machine, or what probe --json or --save wrote."
        ),
    ],
    collective: Annotated[
        str | None,
        typer.Option("--collective", metavar="COLLECTIVE", help="Such as all_reduce; with hccl else all it models."),
    ] = None,
    sizes: Annotated[str, typer.Option("--sizes", metavar="SIZES", help="Such as 8-64MiB or 4K,1M.")] = "1K-1GiB",
    hosts: Annotated[
        int | None, typer.Option("--hosts", metavar="H", min=1, help="So many hosts of that machine.")
    ] = None,
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", min=2, help="Number of ranks; else one a device.")
    ] = None,
    scaling: Annotated[bool, typer.Option("--scaling", help="Print a table over 2, 4, 8 ... ranks.")] = False,
    dtype: ElementType = "float32",
    op: Operation = "sum",
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="hccl: where its own choice is predicted to lose.")
    ] = "native",
    mode: Annotated[
        str | None, typer.Option("--mode", metavar="MODE", help="With hccl: HCCL_OP_EXPANSION_MODE, such as AIV.")
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Find the model's constants from the database's trials of that machine.")
    ] = False,
    db: Database = None,
    as_json: AsJson = False,
    output: Annotated[
        str | None, typer.Option("--output", metavar="TABLE", help="Write a tuning table of simulated rules, too.")
    ] = None,
) -> None:
    """Predict times and best configs on any known machine.

    Nothing is measured. select() uses the rules of --output only when it is asked for simulated evidence.
    """
    from ..plan import parse_collective
    from ..plan.plan import parse_dtype, parse_op
    from ..report.simulation import scaling_view, simulation_document, simulation_view
    from ..simulate import scaling_ranks, subject, table_of
    from ..simulate import simulate as predict
    from ..table import dump_table
    from ..units import parse_sizes
    from .output import write_file

    settings = settings_with(db)
    machine = subject(topology, hosts, staging_bytes=settings.staging_bytes)
    if fit:
        machine = _with_trials(machine, settings)
    most = machine.n_ranks if ranks is None else ranks
    if most < 2:
        raise UsageError("one rank has nobody to talk to", remedy="give --hosts or --ranks of 2 or more")
    counts = scaling_ranks(machine, most) if scaling else (most,)
    if backend == "hccl":
        _refuse("--output is not for --backend hccl", output is not None)
        return _hccl(machine, collective, sizes, counts, mode, dtype, op, as_json=as_json)
    _refuse(f"--backend {backend} is not native or hccl", backend != "native")
    _refuse("--mode is for --backend hccl", mode is not None)
    if collective is None:
        raise UsageError("missing option '--collective'", remedy="see: autotune simulate --help")
    predictions = predict(
        machine, parse_collective(collective), parse_sizes(sizes), counts, dtype=parse_dtype(dtype), op=parse_op(op)
    )
    if output is not None:
        write_file(output, dump_table(table_of(machine, predictions)))
        say(f"{output}: simulated rules; select(..., evidence=('simulated',)) uses them")
    if as_json:
        show_json(simulation_document(machine.title, predictions))
    else:
        show((scaling_view if scaling else simulation_view)(machine.title, predictions))


def _with_trials(machine: Subject, settings: Settings) -> Subject:
    """The machine with what the newest session of the native executor measured on it.

    Raises:
        UsageError: the machine is no topology from a file, or nothing was measured on it.
    """
    from contextlib import closing

    from ..simulate import BACKEND, with_trials

    _refuse("--fit is for a topology from a file", machine.fingerprint is None)
    store = existing_store(settings)
    if store is None:
        return with_trials(machine, ())
    with closing(store):
        sessions = [
            session.session_id
            for session in store.sessions()
            if session.fingerprint == machine.fingerprint and session.backend == BACKEND
        ]
        return with_trials(machine, store.trials(session_id=max(sessions)) if sessions else ())


def _refuse(why: str, given: bool) -> None:
    if given:
        raise UsageError(why, remedy="see: autotune simulate --help")


def _hccl(
    machine: Subject,
    collective: str | None,
    sizes: str,
    counts: Sequence[int],
    mode: str | None,
    dtype: str,
    op: str,
    *,
    as_json: bool,
) -> None:
    """Where HCCL's own choice is predicted to lose."""
    from ..plan import parse_collective
    from ..plan.plan import parse_dtype, parse_op
    from ..report.hccl_simulation import hccl_document, hccl_view
    from ..simulate import simulate_hccl
    from ..units import parse_sizes

    predictions = simulate_hccl(
        machine,
        None if collective is None else parse_collective(collective),
        parse_sizes(sizes),
        counts,
        mode=mode,
        dtype=parse_dtype(dtype),
        op=parse_op(op),
    )
    shown = "its own mode" if mode is None else mode
    if as_json:
        show_json(hccl_document(machine.title, shown, predictions))
    else:
        show(hccl_view(machine.title, shown, predictions))
