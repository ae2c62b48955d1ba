"""The tuning loop: ask for configs, measure them in rounds, store every round. The only optuna.

samplers   the searches by name
proposer   what to try next, behind an ask/tell Protocol; optuna_proposer is Optuna's
knowledge  forecasts, from the cost model (pricing) and what was measured elsewhere (ratios, kriging, history)
budget     seconds, shared out over cells
whole_job  what a job can have only once: one choice for all problems
cell       one problem: race, then confirm
sizes      which sizes between the planned ones are worth measuring
loop       all problems of a plan
outcome    what a run says while it lasts, and what came of it
recheck    whether the rules of a table (claims) still hold
"""

from __future__ import annotations

from .knowledge import Knowledge, Pricing
from .loop import tune
from .outcome import Interrupted, Progress, TuneReport
from .pricing import pricing_of
from .proposer import Proposer, ProposerFor, Scope
from .samplers import Sampler, proposer_for

__all__ = [
    "Interrupted",
    "Knowledge",
    "Pricing",
    "Progress",
    "Proposer",
    "ProposerFor",
    "Sampler",
    "Scope",
    "TuneReport",
    "pricing_of",
    "proposer_for",
    "tune",
]
