"""The answer to a call: what to run, and why. A plain value."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Config, Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to run.

    Args:
        tuned: a rule of the table decided; False where its default did.
        reason: a short sentence for people.
        evidence: what the rule rests on; None where the default decided.
    """

    config: Config
    tuned: bool
    reason: str
    evidence: Evidence | None
