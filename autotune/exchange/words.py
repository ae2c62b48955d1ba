"""Which of our algorithms is which of a library's, as words.json says, each with its source. Standard library only.

A config of the library's own backend keeps its name, which must be one of the library's. The names of every other
backend are the field's (ring, tree ...) and are translated by the ``native`` column, or refused with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..types import Collective, Config, KnobValue
from .sizes import Counted

LIBRARY_CHOICE = "auto"
"""The algorithm of a config that leaves the choice to the library; no rule is written for it."""


class Refused(Exception):
    """The library has no word for a config; the text says why. Never leaves the room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One collective as a library names it.

    Args:
        counted: what the library's rules mean by a size.
        algorithms: the library's names, with what the format's writer needs to know of each.
        native: our name -> the library's.
        facts: the collective's other fields in words.json.
    """

    name: str
    counted: Counted
    algorithms: Mapping[str, Mapping[str, Any]]  # Any: what JSON holds
    native: Mapping[str, str]
    facts: Mapping[str, Any]


Start = tuple[tuple[str, KnobValue], ...]
"""Settings that a job has from its start, the same for every call; sorted by name. A name in capitals is a variable of
the environment, any other a parameter of the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library's vocabulary.

    Args:
        backends: whose configs carry the library's own names.
        parameters: beginning of the variables that hold its parameters; empty where it has no starts.
        starts: those that are worth a trial; a config carries its own as knobs.
        calls: one of our collectives may be several of the library's.
        refused: collectives without a call, and why.
    """

    title: str
    backends: tuple[str, ...]
    source: str
    calls: Mapping[Collective, tuple[Call, ...]]
    refused: Mapping[Collective, str]
    parameters: str = ""
    starts: tuple[Start, ...] = ()

    def environment(self, start: Start) -> dict[str, str]:
        """Variables of the environment that make a start."""
        return {name if name.isupper() else f"{self.parameters}{name}": str(value) for name, value in start}

    def start_of(self, config: Config) -> Start:
        """Those of a config's knobs that belong to the whole job."""
        names = {name for start in self.starts for name, _ in start}
        return tuple(knob for knob in config.knobs if knob[0] in names)

    def word(self, call: Call, config: Config, backend: str) -> str:
        """The library's name for a config's algorithm.

        Raises:
            Refused: it has none.
        """
        if config.codec != "none":
            raise Refused(f"{config} is lossy, and {self.title} compresses nothing")
        name = config.algorithm
        if backend in self.backends:
            if name in call.algorithms:
                return name
            raise Refused(f"{name!r} is none of its {call.name} algorithms: {', '.join(call.algorithms)}")
        if name not in call.native:
            known = f"; it has for {', '.join(call.native)}" if call.native else ""
            raise Refused(f"{self.title} has no {call.name} that works like {name!r}{known}")
        return call.native[name]


@cache
def library(name: str) -> Library:
    """A library by its name in words.json."""
    return _libraries()[name]


def library_names() -> tuple[str, ...]:
    """Of words.json."""
    return tuple(_libraries())


@cache
def _libraries() -> dict[str, Library]:
    raw = json.loads(Path(__file__).with_name("words.json").read_text("utf-8"))
    return {name: _library(fields) for name, fields in raw.items()}


def _library(fields: Mapping[str, Any]) -> Library:
    return Library(
        title=fields["title"],
        backends=tuple(fields["backends"]),
        source=fields["source"],
        calls={Collective(name): tuple(map(_call, calls)) for name, calls in fields["calls"].items()},
        refused={Collective(name): why for name, why in fields["refused"].items()},
        parameters=fields.get("parameters", ""),
        starts=tuple(tuple(sorted(start.items())) for start in fields.get("starts", ())),
    )


def _call(fields: Mapping[str, Any]) -> Call:
    own = ("name", "counted", "algorithms", "native")
    return Call(
        name=fields["name"],
        counted=Counted(fields["counted"]),
        algorithms=fields["algorithms"],
        native=fields["native"],
        facts={name: value for name, value in fields.items() if name not in own},
    )
