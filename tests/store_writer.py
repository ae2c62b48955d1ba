"""A process that writes rounds, for tests and benchmarks that kill it, starve it, or run several at once.

    python store_writer.py URL N_ROUNDS WAIT_S [N_TUNERS [timed] [holding]]

It prints "ready" and waits for a line; opens a session and prints its id; then prints the number of each round once
add_round has returned. With N_ROUNDS 0 it goes on with the newest session, until it is killed; with a negative one it
goes on until the session has so many rounds, and finishes it. Several tuners are threads with a store each; of these,
and of one that is timed, it prints only the sessions' ids, and at the end the longest wait for a round in seconds. A
refusal of the store is one line on stderr and exit code 1.

One that is holding lets the store hold rounds, by a clock on which a round takes 10 ms. It prints "+" and the number
when add_round has returned, and the number after each 40 rounds, which are a cell that is marked and then flushed:
that acknowledges all before it.
"""

from __future__ import annotations

import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from autotune.db import CellState, NewSession, RoundResult, TrialStore, environment_digest, open_store
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
NEW = NewSession(plan_digest="p1", plan_text="", fingerprint="f1", environment={}, backend="native", command="writer")


HOLD_S = 0.25
ROUND_S = 0.01
CELL_ROUNDS = 40


def main(url: str, n_rounds: int, wait_s: float, n_tuners: int, timed: bool, holding: bool) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    if n_tuners == 1 and not timed:
        ticks = itertools.count()
        hold_s = HOLD_S if holding else 0.0
        with closing(open_store(url, wait_s=wait_s, hold_s=hold_s, clock=lambda: ROUND_S * next(ticks))) as store:
            run(store, n_rounds, holding)
        return
    with ThreadPoolExecutor(n_tuners) as pool:
        waits = list(pool.map(lambda _: tuner(url, n_rounds, wait_s), range(n_tuners)))
    print(max(waits))


def run(store: TrialStore, n_rounds: int, holding: bool) -> None:
    store.add_topology("f1", "{}")
    old = store.resumable("p1", "f1", environment_digest({})) if n_rounds <= 0 else None
    session_id = (old or store.open_session(NEW)).session_id
    print(session_id, flush=True)
    measured = store.trials(session_id=session_id)
    first = len(measured[0].samples) if measured else 0
    for round_ in itertools.count(first) if n_rounds == 0 else range(first, abs(n_rounds)):
        store.add_round(session_id, results(round_))
        if holding:
            print(f"+{round_}", flush=True)
        if holding and (round_ + 1) % CELL_ROUNDS == 0:
            store.mark_cell(session_id, PROBLEM, CellState.DONE)
            store.flush()
        if not holding or (round_ + 1) % CELL_ROUNDS == 0:
            print(round_, flush=True)
    if n_rounds < 0:
        store.finish_session(session_id)


def tuner(url: str, n_rounds: int, wait_s: float) -> float:
    """Write rounds without a pause; the longest wait for one."""
    with closing(open_store(url, wait_s=wait_s)) as store:
        store.add_topology("f1", "{}")
        session_id = store.open_session(NEW).session_id
        print(session_id, flush=True)
        waits = []
        for round_ in range(n_rounds):
            begun = time.monotonic()
            store.add_round(session_id, results(round_))
            waits.append(time.monotonic() - begun)
    return max(waits)


def results(round_: int) -> list[RoundResult]:
    return [result(round_, position) for position in range(N_CONFIGS)]


def result(round_: int, position: int) -> RoundResult:
    sample = Sample(
        kind=SampleKind.FRESH, phase=Phase.RACE, round=round_, position=position, batch_calls=1, time_us=10.0 + position
    )
    return RoundResult(problem=PROBLEM, config=Config(algorithm=f"a{position}"), sample=sample)


if __name__ == "__main__":
    try:
        n_tuners = int(sys.argv[4]) if len(sys.argv) > 4 else 1
        main(
            sys.argv[1],
            int(sys.argv[2]),
            float(sys.argv[3]),
            n_tuners,
            "timed" in sys.argv[5:],
            "holding" in sys.argv[5:],
        )
    except StoreError as err:
        sys.exit(f"error: {err.message} try: {err.remedy}")
