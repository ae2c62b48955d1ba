"""Tables in the formats of others, and the logs of others: one format a file.

    table ──► decisions ──► one exporter a format      words.json: which of our algorithms is which of a library's
                                                       sizes: what a library means by the size of a call
    importing/: log ──► figures                        (its own page)

In: a TuningTable, or the text of a log. Out: text, or `Figure` values; and in words what was lost or doubtful. Writes
no file, keeps nothing, measures nothing.
"""

from .exporter import Exported, Exporter, Request, Soc, Wire
from .registry import EXPORTERS

__all__ = ["EXPORTERS", "Exported", "Exporter", "Request", "Soc", "Wire"]
