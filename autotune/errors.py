"""Every error that autotune raises on purpose.

AutotuneError(message, remedy=...)      the CLI prints "error: ..." and "try: ...", exit code 1
├── UsageError          an argument, option or plan that cannot be meant (exit code 2)
├── ProbeError          the machine could not be read
├── TopologyMismatch    a table or recording belongs to another machine
├── TableFormatError    a table file that is damaged, edited, or of another schema
├── TableUnavailable    the server of AUTOTUNE_TABLE is down, or refuses
├── LogError            a benchmark's log that cannot be read (exchange/importing)
├── StoreError          the trial database is unreadable, read-only, newer than the code, or full
├── BackendUnavailable  a backend that cannot run here
├── TrialFailed         one trial hung, crashed or gave a wrong answer
└── CommunicatorError   ranks disagree, a rank died, or a wait timed out; the communicator is unusable afterwards

Anything else that escapes is a bug and keeps its traceback. Standard library only.
"""

from __future__ import annotations


class AutotuneError(Exception):
    """What went wrong and what to do about it.

    Args:
        message: what, where, got versus expected.
        remedy: one command or setting that helps.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        # The remedy is keyword-only, so the default of Exception would lose it on the way between processes.
        return (_rebuild, (type(self), self.message, self.remedy))


def _rebuild(kind: type[AutotuneError], message: str, remedy: str) -> AutotuneError:
    return kind(message, remedy=remedy)


class UsageError(AutotuneError):
    """The words given by the user cannot be meant: exit code 2, like the CLI's own usage errors."""

    exit_code = 2


class ProbeError(AutotuneError):
    """The machine could not be read."""


class TopologyMismatch(AutotuneError):
    """A table or a recording belongs to another machine."""


class TableFormatError(AutotuneError):
    """A tuning table is damaged, was edited by hand, or has another schema version."""


class TableUnavailable(AutotuneError):
    """The server that AUTOTUNE_TABLE names cannot be reached, or refuses to answer."""


class StoreError(AutotuneError):
    """The trial database cannot be used."""


class BackendUnavailable(AutotuneError):
    """A backend cannot run on this host."""


class TrialFailed(AutotuneError):
    """A trial hung, crashed or gave a wrong answer."""


class CommunicatorError(AutotuneError):
    """Ranks disagree, a rank died, or a wait timed out. The communicator is unusable afterwards, on every rank."""
