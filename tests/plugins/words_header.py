"""autotune/plugins/csrc/words.h: what words.json says of HCCL's tuner and of NCCL, as C++ for the plugins."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.exchange.sizes import Counted
from autotune.exchange.words import Call, Library, library

_HEAD = """\
// What autotune/exchange/words.json says of the libraries that load these plugins. Made from it:
// `UPDATE_GOLDEN=1 pytest tests/plugins/test_words.py` writes this file again.
#pragma once

#include "lines.h"

namespace autotune::plugin::made {
"""
_TAIL = """
}  // namespace autotune::plugin::made

namespace autotune::plugin {

inline constexpr Library kHcclTuner{made::hccl_tuner_backends, made::hccl_tuner_words};
inline constexpr Library kNccl{made::nccl_backends, made::nccl_words};

}  // namespace autotune::plugin
"""
_COUNTED = {Counted.MESSAGE: "Counted::kMessage", Counted.PER_RANK: "Counted::kPerRank"}


def words_header() -> str:
    """The header's text."""
    parts = [*_library("hccl_tuner", library("hccl-tuner")), *_library("nccl", library("nccl"))]
    return "\n".join([_HEAD, *parts]) + _TAIL


def _library(name: str, words: Library) -> Iterator[str]:
    yield _texts(f"{name}_backends", words.backends)
    rows = []
    for collective, calls in words.calls.items():
        [call] = calls
        yield from _call(f"{name}_{collective.value}", call)
        own, native = f"{name}_{collective.value}_own", f"{name}_{collective.value}_native"
        rows.append(f'    {{"{collective.value}", {_COUNTED[call.counted]}, {own}, {native}}},')
    yield "\n".join([f"inline constexpr Words {name}_words[] = {{", *rows, "};"])


def _call(name: str, call: Call) -> Iterator[str]:
    yield _texts(f"{name}_own", call.algorithms)
    pairs = ", ".join(f'{{"{ours}", "{theirs}"}}' for ours, theirs in call.native.items())
    yield f"inline constexpr Pair {name}_native[] = {{{pairs}}};"


def _texts(name: str, texts: object) -> str:
    assert isinstance(texts, (tuple, dict))
    listed = ", ".join(f'"{text}"' for text in texts)
    return f"inline constexpr std::string_view {name}[] = {{{listed}}};"
