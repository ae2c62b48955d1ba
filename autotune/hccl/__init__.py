"""HCCL, Ascend's library of collectives: what can be set, what is legal, what it does by itself. Pure values.

    socs/*.json ──► load ──► facts ──► values, algo ──► lint ◄── shell
                                 ├───► legal, moe ────► candidates ──► groups
                                 └───► selection ─────► prediction

One file of data for each family of chips holds every legal value with its source; code holds no thresholds. Nothing in
here loads torch, torch_npu or HCCL, and nothing has run on an NPU: run on hardware: no.
"""

from .facts import SocFacts
from .load import facts
from .soc import Soc

__all__ = ["Soc", "SocFacts", "facts"]
