"""Schedules, the compiler that makes programs of them, and the native executor that runs programs.

In:  plain values of `autotune.types`. Out: collectives on the caller's buffers.
May not touch: topology, tables, settings. Importing this package loads NumPy and the native module.
"""

from __future__ import annotations

from ._native import create_segment
from .communicator import Communicator, Selector
from .feedback import ErrorFeedback
from .knobs import Shape
from .programs import (
    distinct_names,
    host_numbers,
    lossy_names,
    shared_core_names,
    single_copy_names,
    slices,
    zero_copy_names,
)
from .shared_cores import sharing
from .single_copy import single_copy_fault

__all__ = [
    "Communicator",
    "ErrorFeedback",
    "Selector",
    "Shape",
    "create_segment",
    "distinct_names",
    "host_numbers",
    "lossy_names",
    "shared_core_names",
    "sharing",
    "single_copy_fault",
    "single_copy_names",
    "slices",
    "zero_copy_names",
]
