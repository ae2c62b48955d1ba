"""The searches that a run may use, by name. `benchmarks/search` compares them. Imports no optuna before it is used."""

from __future__ import annotations

import enum

from .proposer import ModelProposer, Proposer, ProposerFor, Scope, coarse_grid, grid, random_search


class Sampler(enum.Enum):
    """``model``: the cost model's ranking, corrected by what is measured. ``tpe`` and ``gp`` are Optuna's, and
    ``model-tpe`` is Optuna's after the model's best. ``grid`` is everything, ``coarse`` what people sweep by hand.
    """

    MODEL = "model"
    MODEL_TPE = "model-tpe"
    TPE = "tpe"
    GP = "gp"
    RANDOM = "random"
    COARSE = "coarse"
    GRID = "grid"


def proposer_for(sampler: Sampler) -> ProposerFor:
    """What makes the proposers of a search. Optuna is imported when the first of its own is made."""
    match sampler:
        case Sampler.MODEL:
            return ModelProposer
        case Sampler.RANDOM:
            return random_search
        case Sampler.COARSE:
            return coarse_grid
        case Sampler.GRID:
            return grid
        case Sampler.MODEL_TPE:
            return _seeded_tpe
        case Sampler.TPE:
            return _tpe
        case Sampler.GP:
            return _gp


def _seeded_tpe(scope: Scope) -> Proposer:
    from .optuna_proposer import seeded_tpe

    return seeded_tpe(scope)


def _tpe(scope: Scope) -> Proposer:
    from .optuna_proposer import tpe

    return tpe(scope)


def _gp(scope: Scope) -> Proposer:
    from .optuna_proposer import gp

    return gp(scope)
