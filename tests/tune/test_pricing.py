"""What the cost model says to a search: calls over the sockets of one host take all of their work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.plan import quick_plan
from autotune.topology.machines import machine
from autotune.tune.pricing import _over_sockets, pricing_of
from autotune.types import Collective, Config

PROBLEM = quick_plan(4).override(collectives=[Collective.ALL_REDUCE], sizes=[4096], ranks=[4]).problems("torch")[0]


def time_us(algorithm: str, n_cores: int, message_bytes: int = 4096) -> float:
    config = Config(algorithm=algorithm, segment_bytes=message_bytes)
    return _over_sockets(4, n_cores).price(replace(PROBLEM, message_bytes=message_bytes), config).time_us


def test_on_few_cores_few_messages_win_and_on_many_few_steps() -> None:
    """A chain sends 6 messages in 6 steps, recursive doubling 8 in 2."""
    assert time_us("chain", 1) < time_us("recursive_doubling", 1) < time_us("ring", 1)
    assert time_us("chain", 1) > 1.5 * time_us("chain", 2)


def test_bytes_keep_cores_busy_too() -> None:
    assert time_us("direct", 2, 4 << 20) > 5 * time_us("direct", 2, 4096) / 2


@pytest.mark.parametrize(("n_ranks", "is_priced"), [(16, True), (17, False)])
def test_an_algorithm_for_shared_cores_has_no_price_where_ranks_share_them(n_ranks: int, is_priced: bool) -> None:
    """On 16 CPUs. Elsewhere the config's own algorithm runs, and has its price."""
    price = pricing_of(machine("two-socket-host", n_hosts=1), "native", staging_bytes=8 << 20)
    key = replace(PROBLEM.key, backend="native", n_ranks=n_ranks, placement=(n_ranks,))
    problem = replace(PROBLEM, key=key)
    own = Config(algorithm="direct", segment_bytes=4096)
    plain, shared = price(problem, own), price(problem, replace(own, knobs=(("shared_cores", "owners"),)))
    assert plain is not None
    assert shared == (plain if is_priced else None)
