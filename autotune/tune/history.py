"""What earlier runs in the store know of this machine, or of one like it. Read once, before a run begins.

In:  a store, a topology. Out: knowledge. May not touch: the runs that it reads; decisions, which rest on a run's own
trials alone.
"""

from __future__ import annotations

from ..db import Session, TrialStore
from ..errors import AutotuneError
from ..topology.document import from_json
from ..topology.graph import Topology
from .knowledge import EARLIER_RUN, SIMILAR_MACHINE, Knowledge, by_cell

_MOST_SESSIONS = 4  # of each kind: the newest say what the older ones do


def learn_history(knowledge: Knowledge, store: TrialStore, session: Session, topology: Topology) -> tuple[int, int]:
    """Take in the newest runs of this backend before the session, oldest first, so that the newest word stands.

    A machine is like this one if its ranks sit on the same devices in the same shape: equal counts of hosts and equal
    kinds and models of what a rank sits on. Its residuals count less than those of this machine.

    Returns:
        How many runs of this machine, and of similar ones, were read.
    """
    earlier = [s for s in store.sessions() if s.session_id < session.session_id and s.backend == session.backend]
    own = [s for s in earlier if s.fingerprint == session.fingerprint][-_MOST_SESSIONS:]
    shape = _shape(topology)
    alike: dict[str, bool] = {session.fingerprint: False}
    for other in earlier:
        if other.fingerprint not in alike:
            alike[other.fingerprint] = _described(store, other.fingerprint) == shape
    similar = [s for s in earlier if alike[s.fingerprint]][-_MOST_SESSIONS:]
    for runs, trust in ((similar, SIMILAR_MACHINE), (own, EARLIER_RUN)):
        for run in runs:
            for trials in by_cell(store.trials(session_id=run.session_id)).values():
                knowledge.learn(trials, trust=trust)
    return len(own), len(similar)


Shape = tuple[int, tuple[tuple[str, str], ...]]


def _shape(topology: Topology) -> Shape:
    devices = topology.rank_devices()
    kinds = sorted((type(device).__name__, str(getattr(device, "model", ""))) for device in devices)
    return len(topology.hosts), tuple(kinds)


def _described(store: TrialStore, fingerprint: str) -> Shape | None:
    """The shape of a machine in the store; None where its description is not readable (any more)."""
    text = store.topology(fingerprint)
    if text is None:
        return None
    try:
        return _shape(from_json(text))
    except AutotuneError:
        return None
