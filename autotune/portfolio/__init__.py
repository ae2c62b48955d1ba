"""At most K process groups instead of one config for every call: which ones lose least. Pure; no numpy, no torch.

    cells (sizes, times of configs) ──► choose ──► solve ──► Portfolio ──► file ──► torch_groups

On some libraries a config is fixed when a group is made, and each group costs memory. ``family`` says what of a
config belongs to its group, ``choose`` lists the groups that could be made, ``solve`` is the solver and knows of none
of it, ``value`` is the answer as a value and a file. ``torch_groups`` makes the groups; it alone needs torch, and
nothing here imports it.
"""

from .choose import Limits, Measured, choose
from .family import ANY, Family
from .solve import Cell, Option, Solution, solve
from .value import Group, Portfolio, Route, dump_portfolio, parse_portfolio

__all__ = [
    "ANY",
    "Cell",
    "Family",
    "Group",
    "Limits",
    "Measured",
    "Option",
    "Portfolio",
    "Route",
    "Solution",
    "choose",
    "dump_portfolio",
    "parse_portfolio",
    "solve",
]
