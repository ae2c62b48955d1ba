"""How flows that start together share what they cross: max-min fair rates, until the last one is done.

In:  flows (sizes, resources that each crosses), capacities. Out: when each flow ends. Pure; numpy only.

Rates follow progressive filling (Bertsekas and Gallager 1992, Data Networks, section 6.5.2): all flows grow alike until
a resource is full, whose flows then stay; the others go on. When a flow ends, its share is given to the others.

Flows that see the same are one *class*. Classes are found by refinement: two flows stay together if they have the same
size and cross resources of the same classes, two resources if they have the same capacity and carry as many flows of
each class. In such a partition all flows of a class have the same rate at any time, so that the filling runs over a few
classes, however many ranks there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .fabric import NO_RESOURCE, FloatArray, IntArray

_SEED = 20261129  # of the numbers that stand for classes while they are refined
_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classes:
    """Flows that share alike.

    Args:
        of_flow: shape (flows,): the class of each flow.
        size: shape (classes,): what one flow carries.
        crossed: shape (resource classes, classes): flows of a class that one such resource carries.
        capacity: shape (resource classes,).
    """

    of_flow: NDArray[np.intp]
    size: FloatArray
    crossed: FloatArray
    capacity: FloatArray


def end_times(size: FloatArray, resources: IntArray, capacity: FloatArray) -> FloatArray:
    """When each flow ends, if all start at 0.

    Args:
        size: shape (flows,), above 0.
        resources: shape (flows, k), NO_RESOURCE where a flow crosses fewer. A flow that crosses none ends at once.
        capacity: by resource, in size units per unit of time.
    """
    classes = classes_of(size, resources, capacity)
    return _class_ends(classes)[classes.of_flow]


def fair_rates(crossed: FloatArray, capacity: FloatArray) -> FloatArray:
    """Max-min fair rates of one flow of each class; infinite for a class that crosses nothing.

    Args:
        crossed: shape (resources, classes): flows of a class on a resource.
        capacity: by resource.
    """
    rate = np.zeros(crossed.shape[1])
    growing = crossed.any(axis=0)
    rate[~growing] = np.inf
    left = capacity.astype(float).copy()
    while growing.any():
        load = crossed[:, growing].sum(axis=1)
        share = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 0)
        level = share.min()
        full = share <= level * (1 + 1e-12)
        stops = growing & crossed[full].any(axis=0)
        rate[stops] = level
        left = np.maximum(left - crossed[:, stops].sum(axis=1) * level, 0.0)
        growing &= ~stops
    return rate


def classes_of(size: FloatArray, resources: IntArray, capacity: FloatArray) -> Classes:
    """The coarsest partition that refinement gives."""
    draw = np.random.default_rng(_SEED)
    used, local = np.unique(resources, return_inverse=True)
    local = local.reshape(resources.shape)
    if used.size and used[0] == NO_RESOURCE:
        used, local = used[1:], local - 1
    crosses = local >= 0
    flow_at, _ = np.nonzero(crosses)
    resource_at = local[crosses]
    of_flow, of_resource = _numbered(size), _numbered(capacity[used])
    n_flow, n_resource = _count(of_flow), _count(of_resource)
    while True:
        # A class is a random number; what a resource is and carries, or a flow is and crosses, is a sum of them.
        flow, resource = draw.random(n_flow)[of_flow], draw.random(n_resource)[of_resource]
        of_resource = _numbered(resource + np.bincount(resource_at, flow[flow_at], len(used)))
        resource = draw.random(len(used))[of_resource]
        of_flow = _numbered(flow + np.bincount(flow_at, resource[resource_at], len(size)))
        before, (n_flow, n_resource) = (n_flow, n_resource), (_count(of_flow), _count(of_resource))
        if before == (n_flow, n_resource):
            break
    crossed = np.zeros((n_resource, n_flow))
    np.add.at(crossed, (of_resource[resource_at], of_flow[flow_at]), 1.0)
    crossed /= np.bincount(of_resource, minlength=n_resource)[:, None]
    first_flow, first_resource = _firsts(of_flow, n_flow), _firsts(of_resource, n_resource)
    return Classes(of_flow=of_flow, size=size[first_flow], crossed=crossed, capacity=capacity[used][first_resource])


def _numbered(values: FloatArray) -> NDArray[np.intp]:
    """Equal values, but for rounding, get one number."""
    return np.unique(np.round(values, _DIGITS), return_inverse=True)[1]


def _count(numbers: NDArray[np.intp]) -> int:
    return int(numbers.max(initial=-1)) + 1


def _firsts(of: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    first = np.zeros(n, np.intp)
    first[of[::-1]] = np.arange(len(of))[::-1]
    return first


def _class_ends(classes: Classes) -> FloatArray:
    left = classes.size.astype(float).copy()
    end = np.zeros(len(left))
    live = left > 0
    now = 0.0
    while live.any():
        rate = np.zeros(len(left))
        rate[live] = fair_rates(classes.crossed[:, live], classes.capacity)
        needs = np.divide(left, rate, out=np.full(len(left), np.inf), where=live)
        needs[live & np.isinf(rate)] = 0.0
        step = needs[live].min()
        now += step
        done = live & (needs <= step * (1 + 1e-12))
        end[done] = now
        left = np.where(live & ~done, left - np.where(np.isinf(rate), 0.0, rate) * step, 0.0)
        live &= ~done
    return end
