"""What a check says: how bad, of what, and what to do about it. Plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.Enum):
    """``ERROR``: the run would fail. ``WARNING``: it would measure something else than meant."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check says; only a finding that is not OK has a remedy."""

    severity: Severity
    subject: str
    message: str
    remedy: str | None = None

    def __post_init__(self) -> None:
        if (self.severity is Severity.OK) != (self.remedy is None):
            raise ValueError(f"{self.subject}: a remedy is given exactly where something is wrong")


def ok(subject: str, message: str) -> Finding:
    """Nothing is wrong."""
    return Finding(severity=Severity.OK, subject=subject, message=message)


def warning(subject: str, message: str, remedy: str) -> Finding:
    """The run would measure something else than meant."""
    return Finding(severity=Severity.WARNING, subject=subject, message=message, remedy=remedy)


def error(subject: str, message: str, remedy: str) -> Finding:
    """The run would fail."""
    return Finding(severity=Severity.ERROR, subject=subject, message=message, remedy=remedy)
