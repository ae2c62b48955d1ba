"""``HCCL_ALGO`` and the other variables that hold for a whole process, as lines for a shell.

Source: hicann/hccl, docs/zh/user_guide/hccl_env/HCCL_ALGO.md: one algorithm for each operator, for all sizes and all
groups; level 1 is between servers, and level 0, inside them, can only be NA. So of all choices the one is written that
loses least against the table's free choice, and the loss is said.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import AutotuneError, UsageError
from ..table import Rule, TuningTable
from ..types import Collective, Config, RuleKey
from ..units import format_bytes
from .decisions import visible_rules
from .exporter import PLAIN, Exported, Request, Soc, nothing_left
from .one_for_all import Cell, Loss, least_loss, weighted_cells
from .words import LIBRARY_CHOICE, Call, Refused, library

Setting = tuple[tuple[str, str], ...]
"""Variables of the process that a config was measured with, by name."""
Choice = tuple[str, Setting]

_VARIABLE = re.compile(r"HCCL_[A-Z0-9_]+\Z")
_VALUE = re.compile(r"[A-Za-z0-9_.,:+-]+\Z")


@dataclass(frozen=True, slots=True)
class HcclEnvExporter:
    """``export HCCL_ALGO=...``."""

    name: str = "hccl-env"
    suffix: str = ".sh"
    summary: str = "HCCL on every Ascend but 310P: environment of a process"
    library: str = "hccl-env"
    loses: tuple[str, ...] = (
        "sizes, rank counts and groups: one algorithm for each operator; the loss against the free choice is printed",
        "anything inside a server: HCCL_ALGO chooses between servers alone",
        "element types, operations, segments",
        "HCCL's own choice by size, which ends for an operator once it is named",
    )
    checked: str = "read by a strict reader after the documentation; run on hardware: no"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        if request.soc is Soc.A310P:
            raise AutotuneError("HCCL_ALGO does nothing on 310P", remedy="leave the environment as it is there")
        rules, notes = visible_rules(table, request, lambda key: key)
        notes += _unused_weights(request, rules)
        cells: dict[Collective, list[Cell]] = {}
        for key, own in rules.items():
            if key.collective not in library(self.library).calls:
                notes.append(f"{key} is left out: {library(self.library).refused[key.collective]}")
                continue
            cells.setdefault(key.collective, []).extend(weighted_cells(key, own, table, request))
        chosen, refused = _chosen(cells, request, table.defaults.backend)
        notes += refused
        if not any(loss.choice != (LIBRARY_CHOICE, ()) for loss in chosen.values()):
            best = ["HCCL's own choice loses least, and needs no variable"] if chosen else []
            raise nothing_left(self.name, (*best, *notes), table, request)
        notes += [_said(collective, loss, cells[collective]) for collective, loss in chosen.items()]
        notes += _warnings(chosen, rules, request)
        return Exported(text=_text(chosen), notes=tuple(notes), usage=(". {path}",))


def _unused_weights(request: Request, rules: Mapping[RuleKey, Sequence[Rule]]) -> list[str]:
    every = list(itertools.chain.from_iterable(rules.values()))
    outside = [size for size in request.weights if not any(r.from_bytes <= size < r.to_bytes for r in every)]
    if request.weights and len(outside) == len(request.weights):
        raise UsageError("no weight is of a size that the table has", remedy="autotune show prints the table's sizes")
    return [f"the weight of {format_bytes(size)} counts nothing: no rule holds that size" for size in outside]


def _chosen(
    cells: Mapping[Collective, list[Cell]], request: Request, backend: str
) -> tuple[dict[Collective, Loss[Choice]], list[str]]:
    """For each collective the best word, under the variables of the process that lose least over all of them."""
    refused: list[str] = []
    ranked: dict[Collective, list[Loss[Choice]]] = {}
    for collective, own in cells.items():
        meanings = _meanings(library("hccl-env").calls[collective][0], own, backend, request.soc)
        found = least_loss(own, {config: choice for config, (choice, _) in meanings.items()}.get)
        whys = {meanings[cell.free][1] for cell in own}
        refused += [f"{collective.value}: left out: {why}" for why in sorted(whys - {""})]
        if found:
            ranked[collective] = found
    settings = sorted({loss.choice[1] for losses in ranked.values() for loss in losses})
    best: tuple[tuple[float, float], dict[Collective, Loss[Choice]]] | None = None
    for setting in settings:
        picked = {
            collective: same[0]
            for collective, losses in ranked.items()
            if (same := [loss for loss in losses if loss.choice[1] == setting])
        }
        missing = sum(len(cells[collective]) for collective in ranked.keys() - picked.keys())
        unknown = sum(sum(cell.weight for cell in loss.unknown) for loss in picked.values())
        score = (missing + unknown, sum(loss.loss or 0.0 for loss in picked.values()))
        if best is None or score < best[0]:
            best = (score, picked)
    return ({} if best is None else best[1]), refused


def _meanings(
    call: Call, cells: Sequence[Cell], backend: str, soc: Soc | None
) -> dict[Config, tuple[Choice | None, str]]:
    """Of every measured config: what it is to HCCL, and why it is nothing."""

    def meaning(config: Config) -> tuple[Choice | None, str]:
        try:
            own = config.algorithm == LIBRARY_CHOICE
            word = LIBRARY_CHOICE if own else library("hccl-env").word(call, config, backend)
        except Refused as why:
            return None, str(why)
        socs = _socs(call, word)
        if soc is not None and soc.value not in socs:
            return None, f"{word} is for {', '.join(socs)}, not for {soc.value}"
        setting = tuple((name, str(value)) for name, value in config.knobs if _VARIABLE.match(name))
        bad = next((f"{name}={value}" for name, value in setting if not _VALUE.match(value)), None)
        return (None, f"{bad!r} is no value of a variable") if bad else ((word, setting), "")

    return {config: meaning(config) for cell in cells for config in cell.times_us}


def _said(collective: Collective, loss: Loss[Choice], cells: Sequence[Cell]) -> str:
    word = "HCCL's own choice" if loss.choice[0] == LIBRARY_CHOICE else loss.choice[0]
    text = f"{collective.value}: {word} for all sizes"
    if loss.loss is None:
        return f"{text}; what it costs is not known, as it was measured at no size that counts"
    text += f" loses {100 * loss.loss:.1f} % against the free choice"
    if loss.worst is not None and loss.worst[1] > 0.0:
        text += f", at worst {100 * loss.worst[1]:.1f} % ({loss.worst[0]})"
    known = len(cells) - len(loss.unknown)
    if loss.unknown:
        text += f"; it was measured in {known} of {len(cells)} sizes, and nothing is known of the rest"
    return text


def _warnings(
    chosen: Mapping[Collective, Loss[Choice]], rules: Mapping[RuleKey, object], request: Request
) -> list[str]:
    notes = []
    if all(len(key.placement) == 1 for key in rules if key.collective in chosen):
        notes.append(
            "all these rules are of ranks on one server, where HCCL_ALGO decides nothing: it chooses between servers"
        )
    if request.soc is None:
        calls = library("hccl-env").calls
        for collective, loss in chosen.items():
            socs = ", ".join(_socs(calls[collective][0], loss.choice[0]))
            if loss.choice[0] != LIBRARY_CHOICE:
                notes.append(f"{loss.choice[0]} for {collective.value} is for {socs}; --soc checks yours")
    return notes


def _socs(call: Call, word: str) -> list[str]:
    """The chips that have an algorithm; HCCL chooses by itself on all of them."""
    if word == LIBRARY_CHOICE:
        return [soc.value for soc in Soc]
    return list(call.algorithms[word]["socs"])


def _text(chosen: Mapping[Collective, Loss[Choice]]) -> str:
    calls = library("hccl-env").calls
    words = [
        f"{calls[collective][0].name}=level0:NA;level1:{loss.choice[0]}"
        for collective, loss in chosen.items()
        if loss.choice[0] != LIBRARY_CHOICE  # an operator that is not named keeps HCCL's own choice
    ]
    variables = dict(next(iter(chosen.values())).choice[1])
    lines = [f"export HCCL_ALGO={shlex.quote('/'.join(words))}"] if words else []
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join(lines) + "\n"
