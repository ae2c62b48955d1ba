"""Tables in the formats of others: one format a file, each of which says what it cannot express.

In: a TuningTable. Out: text. Writes no file and measures nothing.
"""

from .exporter import EXPORTERS, Exporter

__all__ = ["EXPORTERS", "Exporter"]
