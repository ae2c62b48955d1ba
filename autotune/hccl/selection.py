"""What HCCL does by itself: the default to beat, as rules of socs/*.json. Pure.

In:  the rules of a chip, a call. Out: the branch that HCCL takes, with its source. May not touch: prices.

Single-operator mode, not deterministic, one group at a time; what graph mode and determinism change is not modelled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..types import Collective
from .facts import SelectionRule, SelectionRules

PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A call as HCCL sees it.

    Args:
        devices: of each server.
    """

    collective: Collective
    message_bytes: int
    servers: int
    devices: int

    @property
    def n_ranks(self) -> int:
        return self.servers * self.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What HCCL does.

    Args:
        schedule: in the registry's names, inside one server; None where servers are joined.
        level1: HCCL's algorithm between servers; None on one server.
        engine: the expansion mode that really runs.
    """

    executor: str
    schedule: str | None
    level1: str | None
    engine: str
    source: str


def own_choice(rules: SelectionRules, shape: Shape, mode: str, default_mode: str) -> Choice | None:
    """The branch for a call; None where none is published.

    Args:
        mode: the expansion mode that is set.
        default_mode: what runs where that mode does not carry out the call.
    """
    for rule in rules.rules:
        if not _fits(rule, shape, mode):
            continue
        engine = default_mode if rule.mode is None and mode == "AIV" else mode
        if shape.servers == 1:
            return Choice(
                executor=rule.executor, schedule=rule.schedule, level1=None, engine=engine, source=rule.source
            )
        return Choice(
            executor=rule.executor,
            schedule=None,
            level1=_level1(rules, rule.schedule, shape),
            engine=engine,
            source=rule.source,
        )
    return None


def _fits(rule: SelectionRule, shape: Shape, mode: str) -> bool:
    size = (shape.message_bytes, shape.n_ranks, shape.devices)
    return (
        rule.collective is shape.collective
        and rule.servers[0] <= shape.servers <= rule.servers[1]
        and (rule.ranks is None or rule.ranks[0] <= shape.n_ranks <= rule.ranks[1])
        and rule.mode in (None, mode)
        and not (rule.power_of_two and shape.servers & (shape.servers - 1))
        and not (rule.several_devices and shape.devices == 1)
        and (rule.up_to is None or rule.up_to.reached_by(*size) <= 1.0)
        and (rule.below is None or rule.below.reached_by(*size) < 1.0)
        and (rule.at_least is None or rule.at_least.reached_by(*size) >= 1.0)
    )


def _level1(rules: SelectionRules, schedule: str, shape: Shape) -> str:
    if schedule == "level1":
        return by_alpha_beta(rules, shape)
    if schedule == "level1_static":
        return by_number_of_servers(rules, shape.servers)
    words = {"nhr": "NHR", "ring": "ring", "direct": "direct"}
    return words.get(schedule, schedule)


def by_number_of_servers(rules: SelectionRules, servers: int) -> str:
    """hcomm, alg_configurator.cc, GetDefaultAlgoLevel1V1: halving from eight servers on and for powers of two."""
    return rules.halving if servers >= 8 or not servers & (servers - 1) else "ring"


def by_alpha_beta(rules: SelectionRules, shape: Shape) -> str:
    """hcomm, alg_configurator.cc, GetDefaultAlgoLevel1V2: the least time; of equal ones ring, then NHR, then H-D_R.

    Ring and NHR carry the same bytes, as does H-D_R among a power of two; among other numbers it carries more.
    """
    n = shape.servers
    ways = 2 if shape.collective is Collective.ALL_REDUCE else 1
    bytes_us = shape.message_bytes / shape.devices / (rules.beta_gb_per_s * 1e3)
    steps = math.ceil(math.log2(n))
    halving_share = (n - 1) / n if not n & (n - 1) else (2 * n - 1) / n
    times = {
        "ring": ways * ((n - 1) * rules.alpha_us + (n - 1) / n * bytes_us),
        "NHR": ways * (steps * rules.alpha_us + (n - 1) / n * bytes_us),
        "H-D_R": ways * (steps * rules.alpha_us + halving_share * bytes_us),
    }
    return min(times, key=lambda word: round(times[word], 6))
