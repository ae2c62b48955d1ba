"""What can run: algorithms."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import AsJson, one_rank_count
from .output import show, show_json


def algorithms(
    collective: Annotated[
        list[str] | None, typer.Option("--collective", metavar="COLLECTIVE", help="Only for this one; may be repeated.")
    ] = None,
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="N", help="Figures for so many ranks in place of formulas.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the algorithms, their costs and limits."""
    from ..plan import parse_collective
    from ..report.algorithms import algorithms_document, algorithms_view
    from ..types import Collective

    collectives = tuple(map(parse_collective, collective)) if collective else tuple(Collective)
    n_ranks = None if ranks is None else one_rank_count(ranks)
    if as_json:
        show_json(algorithms_document(collectives, n_ranks))
    else:
        show(algorithms_view(collectives, n_ranks))
