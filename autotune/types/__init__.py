"""The vocabulary: plain frozen values that every room shares. Standard library only; no behaviour beyond invariants.

    words: enums ──► calls: a problem, a config ──► trials: what was measured

Units are in the names. Unknown is None. Past the CLI and the parsers, words are enums.
"""

from .calls import SHARED_CORES, Config, KnobValue, Layout, Problem, RuleKey, round_up_message
from .trials import Evidence, Fidelity, Phase, Sample, SampleKind, Trial, TrialState, WrongElement
from .words import Collective, DType, Memory, OpClass, ReduceOp, Spread

__all__ = [
    "SHARED_CORES",
    "Collective",
    "Config",
    "DType",
    "Evidence",
    "Fidelity",
    "KnobValue",
    "Layout",
    "Memory",
    "OpClass",
    "Phase",
    "Problem",
    "ReduceOp",
    "RuleKey",
    "Sample",
    "SampleKind",
    "Spread",
    "Trial",
    "TrialState",
    "WrongElement",
    "round_up_message",
]
