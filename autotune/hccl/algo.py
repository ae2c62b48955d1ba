"""The value of HCCL_ALGO, and of ``hccl_algo`` in ``hccl_config``: strict reading and writing. Pure.

    level0:NA;level1:NHR;level2:NHR                                  for every operator
    allreduce=level0:NA;level1:ring/allgather=level0:NA;level1:NHR   for each named one

Source: hicann/hccl, docs/zh/user_guide/hccl_env/HCCL_ALGO.md. Level 0 is inside a server and can only be NA, level 1
is between servers, level 2 between super pods.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .facts import SocFacts

MAX_LENGTH = 1599
"""HcclCommConfig.hcclAlgo holds 1600 characters with its end."""

EVERY = ""
"""The operator of a value that names none."""

_OTHERS = "others"  # what hcomm's alg_env_config.cc reads besides the operators
_LEVELS = ("level0", "level1", "level2")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgoFault:
    """What is wrong with a part of the value.

    Args:
        offset: of its first character in the value.
        silent: HCCL says nothing and does something else.
    """

    offset: int
    what: str
    why: str
    remedy: str
    silent: bool = False


def read_algo(value: str, facts: SocFacts) -> tuple[dict[str, dict[str, str]], list[AlgoFault]]:
    """Operator -> level -> algorithm, and everything that is wrong with the value, in its order."""
    found: dict[str, dict[str, str]] = {}
    faults: list[AlgoFault] = []
    at = 0
    for part in value.split("/"):
        operator, levels_at = EVERY, at
        head, equals, _ = part.partition("=")
        if equals:
            operator, levels_at = head.strip(), at + len(head) + 1
            known = (*facts.level1, _OTHERS)
            if operator not in known:
                faults.append(_misspelled(at, f"operator {operator!r}", operator, known))
        elif "=" in value:
            faults.append(_unclear(at, f"{part!r} names no operator", "write allreduce=level0:NA;level1:NHR"))
        if operator in found:
            faults.append(_unclear(at, f"operator {operator!r} stands there twice", "name each operator once"))
        found[operator] = _levels(value[levels_at : at + len(part)], levels_at, operator, facts, faults)
        at += len(part) + 1
    return found, faults


def write_algo(level1: Mapping[str, str]) -> str:
    """The value that chooses between servers: operator -> algorithm.

    Raises:
        ValueError: longer than HCCL's field.
    """
    text = "/".join(f"{operator}=level0:NA;level1:{word}" for operator, word in sorted(level1.items()))
    if len(text) > MAX_LENGTH:
        raise ValueError(f"hccl_algo of {len(text)} characters; HCCL holds {MAX_LENGTH}")
    return text


def _levels(text: str, base: int, operator: str, facts: SocFacts, faults: list[AlgoFault]) -> dict[str, str]:
    levels: dict[str, str] = {}
    pieces = list(re.finditer(r"[^;]+", text))
    if not pieces:
        faults.append(_unclear(base, "no level is named", "write level0:NA;level1:NHR"))
    for piece in pieces:
        at = base + piece.start() + len(piece[0]) - len(piece[0].lstrip())
        name, _, word = (half.strip() for half in piece[0].partition(":"))
        if name not in _LEVELS:
            faults.append(_misspelled(at, f"level {name!r}", name, _LEVELS))
        elif not word:
            faults.append(_unclear(at, f"{name} names no algorithm", f"write {name}:NHR"))
        elif name in levels:
            faults.append(_unclear(at, f"{name} stands there twice", f"name {name} once"))
        else:
            levels[name] = word
            fault = _objection(at + piece[0].strip().index(word), name, word, operator, facts)
            if fault is not None:
                faults.append(fault)
    return levels


def _objection(offset: int, level: str, word: str, operator: str, facts: SocFacts) -> AlgoFault | None:
    soc = facts.soc.value
    if level == "level0":
        if word == "NA":
            return None
        return AlgoFault(
            offset=offset,
            what=f"level0:{word}",
            why="level 0, inside a server, can only be NA",
            remedy="write level0:NA",
            silent=True,
        )
    if level == "level2":
        if not facts.level2:
            why = f"{soc} has no level 2"
            return AlgoFault(offset=offset, what=f"level2:{word}", why=why, remedy="leave level2 out", silent=True)
        return None if word in facts.level2 else _misspelled(offset, f"algorithm {word!r}", word, facts.level2)
    here = sorted({name for names in facts.level1.values() for name in names})
    legal = facts.level1.get(operator, here)
    if word in legal:
        return None
    if word in facts.deprecated:
        return AlgoFault(
            offset=offset, what=f"algorithm {word!r}", why="it is to be withdrawn", remedy="write NHR", silent=True
        )
    others = ", ".join(legal) or "none"
    if word in here:
        why = f"{soc} has it not for {operator}, and silently takes another"
        return AlgoFault(offset=offset, what=f"algorithm {word!r}", why=why, remedy=f"use one of {others}", silent=True)
    return _misspelled(offset, f"algorithm {word!r}", word, legal, where=f" on {soc}")


def _misspelled(offset: int, what: str, word: str, known: Iterable[str], where: str = "") -> AlgoFault:
    names = list(known)
    near = difflib.get_close_matches(word.lower(), [name.lower() for name in names], n=1, cutoff=0.5)
    meant = next((name for name in names if near and name.lower() == near[0]), None)
    return AlgoFault(
        offset=offset,
        what=f"{what} is unknown{where}",
        why=f"known: {', '.join(names) or 'none'}",
        remedy=f"did you mean {meant!r}?" if meant else f"use one of {', '.join(names) or 'none'}",
    )


def _unclear(offset: int, what: str, remedy: str) -> AlgoFault:
    return AlgoFault(offset=offset, what=what, why="HCCL cannot tell what is meant", remedy=remedy)
