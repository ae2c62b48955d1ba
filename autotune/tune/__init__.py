"""The tuning loop: ask for configs, measure them in rounds, store every round. Later the only optuna.

proposer  what to try next, behind an ask/tell Protocol
budget    seconds, shared out over cells
cell      one problem: race, then confirm
loop      all problems of a plan, and the report
"""

from __future__ import annotations

from .loop import Interrupted, Progress, TuneReport, tune
from .proposer import GridProposer, Proposer, ProposerFor

__all__ = ["GridProposer", "Interrupted", "Progress", "Proposer", "ProposerFor", "TuneReport", "tune"]
