"""Commands about a table: show, explain."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import StoreError, UsageError
from .options import (
    AsJson,
    BackendName,
    BufferMemory,
    Database,
    ElementType,
    Operation,
    TableFile,
    existing_store,
    problem_of,
    ranks_on_hosts,
    settings_with,
    table_source,
)
from .output import show, show_json

if TYPE_CHECKING:
    from ..report.explanation import Proof
    from ..settings import Settings
    from ..table import Rule
    from ..types import RuleKey


def show_table(backend: BackendName = "native", table: TableFile = None, as_json: AsJson = False) -> None:
    """Print the tuning table of this host, or a given one."""
    from ..report.table_view import table_view
    from ..table import document

    source = table_source(table, settings_with(None), backend)
    origin = source.origin if source.why_shipped is None else f"{source.origin}: {source.why_shipped}"
    if as_json:
        show_json({"origin": origin, "table": document(source.table)})
    else:
        show(table_view(source.table, origin))


def explain(
    collective: Annotated[
        str,
        typer.Argument(metavar="COLLECTIVE", help="Such as all_reduce; or with --tiles, such as matmul_all_reduce."),
    ],
    size: Annotated[str | None, typer.Argument(metavar="SIZE", help="Message size, such as 4MiB.")] = None,
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="N", help="Number of ranks; on several hosts as 2+2.")
    ] = None,
    dtype: ElementType = "float32",
    op: Operation = "sum",
    memory: BufferMemory = "private",
    max_error: Annotated[
        float | None, typer.Option("--max-error", metavar="E", help="The call's error budget, for lossy rules.")
    ] = None,
    backend: BackendName = "native",
    table: TableFile = None,
    tiles: Annotated[
        Path | None, typer.Option("--tiles", metavar="FILE", help="What save_tiles() wrote: of fused products.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Say which config a call gets, and why.

    With the runners-up, their times and intervals, the trials that prove it, and why the default was or was not kept.
    With --tiles: from how many rows on it pays to fuse a product with its collective.
    """
    if tiles is not None:
        return _explain_tiles(collective, tiles, as_json=as_json)
    if size is None or ranks is None:
        raise UsageError("a collective is explained for one size and number of ranks", remedy="give SIZE and --ranks")
    from ..backends.choice import REFERENCES
    from ..report.explanation import explain_choice, rule_for
    from ..report.explanation_view import explanation_document, explanation_view
    from ..runtime import Selector

    settings = settings_with(db)
    placement = ranks_on_hosts(ranks)
    problem = problem_of(collective, size, sum(placement), dtype, op, memory, backend, max_error, placement)
    source = table_source(table, settings, backend)
    n_ranks, size_bytes = problem.key.n_ranks, problem.message_bytes
    selection = Selector(source).select(
        collective,
        message_bytes=size_bytes,
        n_ranks=n_ranks,
        dtype=dtype,
        op=op,
        placement=placement,
        memory=memory,
        max_error=max_error,
        backend=backend,
    )
    rule = rule_for(source.table, problem, selection.config) if selection.tuned else None
    proof = None if rule is None else _proof(problem.key, rule, settings)
    explanation = explain_choice(
        problem,
        config=selection.config,
        reason=selection.reason,
        rule=rule,
        proof=proof,
        table=source.table,
        reference=REFERENCES[problem.key.backend],
    )
    if as_json:
        show_json(explanation_document(explanation))
    else:
        show(explanation_view(explanation))


def _explain_tiles(call: str, path: Path, *, as_json: bool) -> None:
    from ..report.crossover import crossover_document, crossover_view
    from ..table.tiles import Fusion, crossovers, load_tilings

    words = [fusion.value for fusion in Fusion]
    if call not in words:
        raise UsageError(f"{call!r} is no fused product; those are {', '.join(words)}", remedy="name one of them")
    found = crossovers(load_tilings(path), Fusion(call))
    if not found:
        raise UsageError(f"{path} has nothing of {call}", remedy=f"tune_tiles({call!r}, m, k, p), then save_tiles()")
    if as_json:
        show_json(crossover_document(found))
    else:
        show(crossover_view(found))


def _proof(key: RuleKey, rule: Rule, settings: Settings) -> Proof:
    """The trials of the rule's session and problem, every config; or why they are not at hand."""
    from ..report.explanation import Proof

    if not rule.trial_ids:
        return Proof(note=f"{rule.evidence.value} rules have none")
    store = existing_store(settings)
    if store is None:
        return Proof(note=f"there is no database {settings.db}")
    with closing(store):
        try:
            first = store.trial(rule.trial_ids[0])
        except StoreError as err:
            return Proof(note=err.message)
        trials = store.trials(session_id=first.session_id, problem=first.problem)
    if replace(first.problem.key, max_error=key.max_error) != key or not {
        trial.trial_id for trial in trials
    }.issuperset(rule.trial_ids):
        return Proof(note=f"trial {first.trial_id} of {store.shown} is of another call")
    return Proof(trials=tuple(trials), note=f"trials are in {store.shown}")
