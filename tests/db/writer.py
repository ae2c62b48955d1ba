"""A process that writes rounds, for tests that kill it, starve it, or run several at once.

    python writer.py URL N_ROUNDS WAIT_S

It prints "ready" and waits for a line; opens a session and prints its id; then prints the number of each round once
add_round has returned. With N_ROUNDS 0 it goes on with the newest session, until it is killed. A refusal of the store
is one line on stderr and exit code 1.
"""

from __future__ import annotations

import itertools
import sys

from autotune.db import NewSession, RoundResult, environment_digest, open_store
from autotune.errors import StoreError
from autotune.types import Collective, Config, Phase, Problem, RuleKey, Sample, SampleKind

N_CONFIGS = 30
PROBLEM = Problem(
    key=RuleKey(
        backend="native",
        collective=Collective.BROADCAST,
        dtype=None,
        op_class=None,
        n_ranks=2,
        placement=(2,),
    ),
    message_bytes=4096,
)


def main(url: str, n_rounds: int, wait_s: float) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    store = open_store(url, wait_s=wait_s)
    store.add_topology("f1", "{}")
    new = NewSession(
        plan_digest="p1", plan_text="", fingerprint="f1", environment={}, backend="native", command="writer"
    )
    old = store.resumable("p1", "f1", environment_digest({})) if n_rounds == 0 else None
    session = old or store.open_session(new)
    print(session.session_id, flush=True)
    measured = store.trials(session_id=session.session_id)
    first = len(measured[0].samples) if measured else 0
    for round_ in itertools.count(first) if n_rounds == 0 else range(n_rounds):
        store.add_round(session.session_id, [result(round_, position) for position in range(N_CONFIGS)])
        print(round_, flush=True)
    store.close()


def result(round_: int, position: int) -> RoundResult:
    sample = Sample(
        kind=SampleKind.FRESH, phase=Phase.RACE, round=round_, position=position, batch_calls=1, time_us=10.0 + position
    )
    return RoundResult(problem=PROBLEM, config=Config(algorithm=f"a{position}"), sample=sample)


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    except StoreError as err:
        sys.exit(f"error: {err.message} try: {err.remedy}")
