"""Logs of others into figures: one format a file, and the list of formats. Pure.

    text ──► the importer that recognises it ──► Log: figures in our sizes, and notes

Everything is strict: an error names file, line, column, the word found and the words allowed, and nothing is half-read.
What a log is allowed to hold besides its rows (launchers' prefixes, other programs' lines) is passed over and counted.
"""

from __future__ import annotations

from ...errors import UsageError
from .bandwidth import disagreeing
from .hccl_profile import HcclProfile
from .hccl_test import HcclTest
from .imb import Imb
from .limits import beyond_topology
from .lines import checked_text
from .log import Claim, Figure, Hints, Importer, Log, LogError
from .ms_modeling import MsModeling
from .nccl_tests import NcclTests
from .osu import Osu
from .plain_csv import PlainCsv

_ALL: tuple[Importer, ...] = (HcclTest(), HcclProfile(), NcclTests(), Osu(), Imb(), MsModeling(), PlainCsv())
IMPORTERS: dict[str, Importer] = {importer.name: importer for importer in _ALL}
"""As given to ``autotune import --format``."""


def importer_for(text: str, source: str) -> Importer:
    """The format that a text is in.

    Raises:
        UsageError: none, or several.
    """
    plain = checked_text(text, source)
    found = [importer for importer in _ALL if importer.recognises(plain)]
    if len(found) == 1:
        return found[0]
    seems = "none" if not found else " and ".join(importer.name for importer in found)
    raise UsageError(
        f"{source}: looks like {seems} of the formats {', '.join(IMPORTERS)}", remedy="say which it is: --format NAME"
    )


__all__ = [
    "IMPORTERS",
    "Claim",
    "Figure",
    "Hints",
    "Importer",
    "Log",
    "LogError",
    "beyond_topology",
    "disagreeing",
    "importer_for",
]
