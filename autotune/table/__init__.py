"""The shipped artefact: which config is best for every key and size, with its evidence, as one JSON file.

Trials are distilled into a TuningTable; runtime and exchange read it. Standard library only; knows no other room but
the vocabulary. docs/table.md describes the format, docs/table.schema.json is its JSON Schema.
"""

from .decode import parse_table
from .defaults import DefaultRow, DefaultRules
from .encode import document, dump_table
from .load import load_table
from .location import newest_table_path, next_table_path, table_path
from .rule import Rule
from .save import check_place, save_table
from .shipped import BACKENDS, LIBRARY, native_defaults, shipped_table
from .tuning_table import SCHEMA_VERSION, TuningTable

__all__ = [
    "BACKENDS",
    "LIBRARY",
    "SCHEMA_VERSION",
    "DefaultRow",
    "DefaultRules",
    "Rule",
    "TuningTable",
    "check_place",
    "document",
    "dump_table",
    "load_table",
    "native_defaults",
    "newest_table_path",
    "next_table_path",
    "parse_table",
    "save_table",
    "shipped_table",
    "table_path",
]
