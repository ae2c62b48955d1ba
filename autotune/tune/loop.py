"""All cells of a plan, then the sizes between them, then what is still open, until all is done or the time is out.

In:  problems, a backend, a store with an open session, an effort, a budget.
Out: a `TuneReport`; everything measured is in the store, from which distil makes the table.

Passes, each a function of what the store holds, so that a run that was killed goes on where it was:

    choose    settings that a job has only once, where the library has such (whole_job)
    planned   every problem: race and confirm (cell); with a budget, in the order of what that is worth (order)
    between   sizes that halve a crossover between neighbouring winners (sizes), until all are narrow
    again     what leaves the default, by ranks that are started anew: not all states of a machine change between rounds
    open      more confirm rounds where they are expected to save most, look by look (measure.sequential)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ..db import Session, TrialStore
from ..measure import NORMAL, Backend, Effort
from ..types import Problem
from .knowledge import Knowledge
from .outcome import Interrupted, Progress, TuneReport
from .passes import WORTH_ROUNDS, Passes
from .pricing import unpriced
from .proposer import ModelProposer, ProposerFor
from .quiet import one_thread
from .whole_job import SettingsOf

CONVERGED_ROUNDS = 116
"""Paired rounds after which a decision that is still open stays so: the difference is too small to matter."""


def tune(
    problems: Sequence[Problem],
    *,
    backend: Backend,
    store: TrialStore,
    session: Session,
    effort: Effort = NORMAL,
    budget_s: float | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    proposer_for: ProposerFor = ModelProposer,
    knowledge: Knowledge | None = None,
    refine: bool = False,
    converge: bool = False,
    calls: Mapping[Problem, float] | None = None,
    whole_job: SettingsOf | None = None,
    seed: int = 0,
) -> TuneReport:
    """Measure every problem that the session is not through with, and finish the session once there is none left.

    Each round is handed to the store before the next begins: an interruption loses at most the round in flight, kill -9
    also what the store holds by then (``hold_s`` of ``open_store``), and the same call on the same session goes on
    after the last one that was stored.

    A budget goes first where the search expects most of it, if it can say. It cuts races (fewer candidates stay), then
    steady rounds and the confirm rounds above nine. A cell that would not get nine is left for the next run, and the
    report says so. The budget is passed by one round at most. What the cells leave over goes to sizes between them and
    to open decisions.

    Args:
        knowledge: what is known before; None for nothing, not even prices.
        refine: whether to measure sizes between the planned ones, where winners change.
        converge: measure on until no decision is open, or its rounds have reached `CONVERGED_ROUNDS`.
        calls: how often a step of the job makes the call of each problem; None where all count alike.
        whole_job: what of a config a job can have only once; one such choice is made for all cells. None: nothing is.
        seed: of the order inside rounds, and of searches that draw lots.

    Raises:
        Interrupted: a KeyboardInterrupt with the partial report.
        AutotuneError: from the backend or the store, when they cannot go on.
    """
    run = Passes(
        problems,
        backend=backend,
        store=store,
        session=session,
        effort=effort,
        budget_s=budget_s,
        progress=progress,
        clock=clock,
        proposer_for=proposer_for,
        knowledge=knowledge or Knowledge(unpriced, backend.default),
        refine=refine,
        calls=calls,
        seed=seed,
    )
    try:
        with one_thread():
            if whole_job is not None:
                run.choose(whole_job)
            run.planned()
            if refine:
                run.between()
            run.again()
            if converge:
                run.open(CONVERGED_ROUNDS, least=0.0)
            else:
                run.open(effort.most_rounds, least=WORTH_ROUNDS)
    except KeyboardInterrupt as stop:
        store.interrupt_session(session.session_id)
        raise Interrupted(run.report()) from stop
    report = run.report()
    if report.complete:
        store.finish_session(session.session_id)
    else:
        store.interrupt_session(session.session_id)
    return report
