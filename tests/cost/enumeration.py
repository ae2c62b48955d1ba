"""Prices the long way, for the tests: every repetition of every step, every transfer, in plain Python.

Written from the definitions and shares nothing with autotune.cost but the fabric's routes: steps come from
``Schedule.expand()``, rates from textbook progressive filling over single flows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from autotune.cost.fabric import NO_RESOURCE, Fabric
from autotune.cost.parameters import NetworkParameters
from autotune.kernels.schedules.ir import Schedule


def fair_rates(flows: Sequence[Sequence[int]], capacity: Sequence[float]) -> list[float]:
    """Max-min fair rates of single flows, each a list of the resources that it crosses."""
    rate = [math.inf if not flow else 0.0 for flow in flows]
    growing = {i for i, flow in enumerate(flows) if flow}
    left = list(capacity)
    while growing:
        load = Counter(resource for i in growing for resource in flows[i])
        level = min(left[resource] / n for resource, n in load.items())
        full = {resource for resource, n in load.items() if left[resource] / n <= level * (1 + 1e-9)}
        for i in sorted(growing):
            if full & set(flows[i]):
                rate[i] = level
                growing.discard(i)
                for resource in flows[i]:
                    left[resource] -= level
    return rate


def end_times(sizes: Sequence[float], flows: Sequence[Sequence[int]], capacity: Sequence[float]) -> list[float]:
    """When each flow ends, if all start at 0 and rates are shared anew whenever one ends."""
    left, end, now = list(sizes), [0.0] * len(sizes), 0.0
    live = [i for i, flow in enumerate(flows) if flow]
    while live:
        rates = fair_rates([flows[i] for i in live], capacity)
        step = min(left[i] / rate for i, rate in zip(live, rates, strict=True))
        now += step
        for i, rate in zip(list(live), rates, strict=True):
            left[i] -= rate * step
            if left[i] <= 1e-9 * sizes[i]:
                end[i] = now
                live.remove(i)
    return end


def turned(steps: Sequence[set[tuple[int, int]]]) -> list[bool]:
    """Of each step, whether a rank sends to one to whom it did not send in its last step; calls follow each other."""
    last: dict[int, set[int]] = {}
    turns: list[bool] = []
    for pairs in [*steps, *steps]:
        now: dict[int, set[int]] = {}
        for src, dst in pairs:
            now.setdefault(src, set()).add(dst)
        turns.append(any(peers - last.get(src, set()) for src, peers in now.items()))
        last |= now
    return turns[len(steps) :]


def price_us(
    schedule: Schedule,
    fabric: Fabric,
    parameters: NetworkParameters,
    *,
    message_bytes: float,
    segment_bytes: int,
    order: Sequence[int] | None = None,
) -> float:
    """One call of a schedule whose blocks together are ``message_bytes``, slices in waves included."""
    ranks = list(range(schedule.n)) if order is None else list(order)
    capacity = [c * 1e3 for c in fabric.capacities()]
    steps = []
    for plain in schedule.expand():
        blocks: Counter[tuple[int, int]] = Counter()
        for transfer in plain:
            blocks[ranks[transfer.src], ranks[transfer.dst]] += len(transfer.blocks)
        steps.append((blocks, plain[0].reduce))
    most = max((n for blocks, _ in steps for n in blocks.values()), default=1)
    whole = message_bytes / schedule.blocks
    slices = max(1, math.ceil(most * whole / segment_bytes - 1e-9))
    block = whole / slices
    fill: float = parameters.call_us
    load = [0.0] * len(capacity)
    handled, reduced = Counter[int](), Counter[int]()
    waves_us, turns = 0.0, turned([set(blocks) for blocks, _ in steps])
    for (blocks, reduce), turn in zip(steps, turns, strict=True):
        pairs = sorted(blocks)
        src, dst = (np.array(side, np.int32) for side in zip(*pairs, strict=True))
        routes = fabric.routes(src, dst)
        flows = [[r for r in row if r != NO_RESOURCE] for row in routes.resources.tolist()]
        sizes = [blocks[pair] * block for pair in pairs]
        ends = end_times(sizes, flows, capacity)
        terms = [
            (lat * parameters.latency_share + end * parameters.wire_share, lat)
            for lat, end in zip(routes.latency_us.tolist(), ends, strict=True)
        ]
        slowest = max(terms)
        messages = max(max(Counter(s for s, _ in pairs).values()), max(Counter(d for _, d in pairs).values()))
        arrived: Counter[int] = Counter()
        for (s, d), n in blocks.items():
            arrived[d] += n
            handled[s] += 1
            handled[d] += 1
        if reduce:
            reduced.update(arrived)
        busiest = max(arrived.values()) if reduce else 0
        turn_us = parameters.turn_us * turn
        waves_us += parameters.message_us * messages + parameters.latency_share * slowest[1] + turn_us
        fill += (
            turn_us
            + parameters.message_us * messages
            + slowest[0]
            + busiest * block / 1e3 * parameters.reduce_us_per_kb
        )
        for size, flow in zip(sizes, flows, strict=True):
            for resource in flow:
                load[resource] += size
    if not steps:
        return fill
    levels = len(steps) + 1
    spacing = math.ceil(levels / min(4, levels))
    further: float = max(
        max(used / capacity[r] for r, used in enumerate(load)) * parameters.wire_share
        + sum(turns) * parameters.turn_us,
        max(handled.values()) * parameters.message_us
        + max(reduced.values(), default=0) * block / 1e3 * parameters.reduce_us_per_kb,
        waves_us / len(steps) * spacing,
    )
    return fill + (slices - 1) * further
