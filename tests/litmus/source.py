"""The memory orders that the executor's source asks for, so that the model checks the code as it is.

In:  the C++ files. Out: for each access of the model, whether it synchronises; the accesses that no rule here knows.
May not touch: the model.
"""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "kernels" / "csrc"

_ACCESSES = {
    "message store": ("level.cc", r"header\.word\.store\(wave\.word, "),  # Group::post
    "message load": ("group.cc", r"header\.word\.load\("),  # Group::await_message
    "clock store": ("group.cc", r"clock\.store\(clock, "),  # Group::tell_clock
    "clock load": ("group.cc", r"theirs\.load\("),  # Group::await_clock
    "sleepers load": ("waiting.h", r"\.sleepers\.load\("),  # Waiting::ring
    "record open": ("group.cc", r"record\.tag\.store\(0, "),  # Group::begin
    "record field store": ("group.cc", r"record\.(?!tag)\w+(?:\[i\])?\.store\([^;]*, "),
    "record close": ("group.cc", r"record\.tag\.store\(call_[^;]*, "),
    "record tag load": ("agreement.cc", r"tag = theirs\.tag\.load\("),  # Group::differences
    "record field load": ("agreement.cc", r"theirs\.(?!tag)\w+(?:\[i\])?\.load\("),
    "record tag again": ("agreement.cc", r"if \(theirs\.tag\.load\("),
    "piece store": ("point_to_point.cc", r"header\.word\.store\(piece, "),  # Group::send
    "piece load": ("point_to_point.cc", r"header\.word\.load\("),  # Group::recv
    "received store": ("point_to_point.cc", r"channel\.received\.store\(piece, "),  # Group::recv
    "received load": ("point_to_point.cc", r"channel\.received\.load\("),  # Group::send
}
_NOT_MODELLED = {
    "group.cc": (r"theirs\.tag\.load\(",),  # AUTOTUNE_CHECK waits for a record as for a message
    "waiting.h": (
        r"\.broken\.load\(",  # a late look at a failure; what follows it reads again
        r"\.core\.load\(",  # where a rank runs: chooses how to wait, never whether
    ),
    "waiting.cc": (r"(mine|\.core)\.(load|store)\(",),  # the same
    "point_to_point.cc": (r"header\.(message_bytes|what)\.(store|load)\(",),  # between the edges of the piece
}
_ORDER = r"std::memory_order_(\w+)\)"
_FILES = ("group.cc", "level.cc", "point_to_point.cc", "waiting.cc", "waiting.h")


def synchronises() -> dict[str, bool]:
    """For each access, whether every one of its kind in the source is a release store or an acquire load.

    Raises:
        AssertionError: the source has no such access any more: the model has to follow it.
    """
    orders = {}
    for name, (file, pattern) in _ACCESSES.items():
        found = re.findall(pattern + _ORDER, _text(file))
        assert found, f"{file} has no {name} ({pattern})"
        orders[name] = set(found) <= {"release", "acquire", "acq_rel", "seq_cst"}
    return orders


def unknown() -> list[str]:
    """Accesses with a memory order in the protocol's files that neither the model nor the list above knows."""
    left = []
    for file in _FILES:
        text = _text(file)
        patterns = [pattern for where, pattern in _ACCESSES.values() if where == file]
        for pattern in (*patterns, *_NOT_MODELLED.get(file, ())):
            text = re.sub(rf"{pattern}[^;]*?{_ORDER}", "", text)
        left += [f"{file}: {line.strip()}" for line in text.splitlines() if "memory_order_" in line]
    return left


def _text(file: str) -> str:
    return (SOURCES / file).read_text(encoding="utf-8")
