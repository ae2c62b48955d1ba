"""What a page is made of, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...table import TuningTable
from ...topology.graph import Topology
from ...types import Config, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A tuning run, as the page lists it; times are ISO 8601 in UTC.

    Args:
        state: ``running``, ``interrupted`` or ``finished``.
        finished_at: None until it is.
    """

    session_id: int
    state: str
    command: str
    created_at: str
    finished_at: str | None
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything that a page shows.

    Args:
        origin: where the table comes from, in words.
        topology: of the machine; None where it is not at hand.
        runs: that measured it, oldest first.
        trials: of these runs, every config; empty where they are not at hand.
        note: where the trials are, or why they are not at hand.
        reference: the fixed config that gains are also reported against.
        made_at: UTC, as ``2026-01-31T12:00:00Z``.
        version: of autotune.
    """

    table: TuningTable
    origin: str
    topology: Topology | None
    runs: tuple[Run, ...]
    trials: tuple[Trial, ...]
    note: str
    reference: Config
    made_at: str
    version: str
