"""Schedules, the compiler that makes programs of them, and the native executor that runs programs.

In:  plain values of `autotune.types`. Out: collectives on the caller's buffers.
May not touch: topology, tables, settings. Importing this package loads NumPy and the native module.
"""

from __future__ import annotations

from ._native import create_segment
from .calls import Shape, distinct_names, slices
from .communicator import Communicator, Selector

__all__ = ["Communicator", "Selector", "Shape", "create_segment", "distinct_names", "slices"]
