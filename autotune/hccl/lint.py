"""What is wrong with the settings of an environment or a start script for HCCL. Pure.

In:  a `Script`, a family of chips. Out: findings with file, line, column, what, why, source and remedy.
May not touch: files, the environment, devices.

Where the chip is not known, only what is wrong on every family is said.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .algo import read_algo
from .conflicts import conflicts_of
from .facts import Conflict, SocFacts, ValueKind, Weight
from .load import facts
from .moe import MoeShape, least_buffer_mb, moe_algorithm
from .script import Given, Script
from .shell import Place
from .soc import Soc
from .values import value_fault

_NEAR = 0.8  # of difflib: as near as HCCL_BUFSIZE to HCCL_BUFFSIZE
_NEAR_ELSEWHERE = 0.88  # of names without HCCL_, which may well be somebody else's
_NAMES = "hicann/hccl, docs/zh/user_guide/hccl_env/README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFinding:
    """One thing that is wrong.

    Args:
        place: None for the environment of a process.
    """

    weight: Weight
    file: str
    place: Place | None
    what: str
    why: str
    source: str
    remedy: str

    @property
    def where(self) -> str:
        """For people."""
        return self.file if self.place is None else f"{self.file}, line {self.place.line}, column {self.place.column}"


def lint(script: Script, file: str, soc: Soc | None) -> list[EnvFinding]:
    """Everything that is wrong, in the order of the file."""
    socs = list(Soc) if soc is None else [soc]
    each = [_lint_on(script, file, facts(one)) for one in socs]
    everywhere = {_identity(finding) for finding in each[0]}
    for found in each[1:]:
        everywhere &= {_identity(finding) for finding in found}
    kept = [finding for finding in each[0] if _identity(finding) in everywhere]
    return sorted(kept, key=lambda finding: finding.place or Place(0, 0))


def lint_moe(script: Script, file: str, soc: Soc, shape: MoeShape, comm_alg: str, quant_mode: int) -> list[EnvFinding]:
    """Whether HCCL_BUFFSIZE is enough for MoE dispatch and combine of this shape, in every launch.

    Raises:
        UsageError: a comm_alg or comm_quant_mode that the chip does not have for so many ranks.
    """
    known = facts(soc)
    algorithm = moe_algorithm(known, comm_alg, shape.n_ranks, quant_mode)
    if algorithm.buffer is None:
        return []
    least = least_buffer_mb(algorithm.buffer, shape)
    found: dict[Place | None, EnvFinding] = {}
    for launch in script.launches:
        given = launch.get("HCCL_BUFFSIZE")
        text = str(known.variables["HCCL_BUFFSIZE"].default) if given is None else given.value
        if text is None or not text.isdigit() or int(text) >= least:
            continue
        place = None if given is None else given.place
        found[place] = EnvFinding(
            weight=Weight.ERROR,
            file=file,
            place=place,
            what=f"HCCL_BUFFSIZE={text}{'' if given else ' (the default)'} for {comm_alg} of {shape.n_ranks} ranks",
            why=f"dispatch and combine of {shape.tokens} tokens a rank need {least} MB, and write beyond a smaller one",
            source=f"{algorithm.source}; vllm-project/vllm-ascend#2674",
            remedy=f"export HCCL_BUFFSIZE={least}, or hccl_config={{'hccl_buffer_size': {least}}} for that group alone",
        )
    return list(found.values())


def _identity(finding: EnvFinding) -> tuple[object, ...]:
    return finding.place, finding.what, finding.weight


def _lint_on(script: Script, file: str, known: SocFacts) -> list[EnvFinding]:
    found: list[EnvFinding] = []
    for given in script.given:
        found += _setting_findings(given, file, known)
    seen: set[tuple[object, ...]] = set()
    for launch in script.launches:
        for conflict in conflicts_of(known, {name: given.value for name, given in launch.items()}):
            finding = _of_conflict(conflict, launch, file)
            if _identity(finding) not in seen:
                seen.add(_identity(finding))
                found.append(finding)
    return found


def _setting_findings(given: Given, file: str, known: SocFacts) -> list[EnvFinding]:
    setting = known.variables.get(given.name)
    if setting is None:
        return _name_findings(given, file, known)
    found = []
    if not given.exported and given.rest is None:
        found.append(
            _finding(
                Weight.WARNING,
                file,
                given.place,
                f"{given.name} is set, but not exported",
                "a program that is started does not see it",
                "POSIX.1-2017, 2.14 export",
                f"export {given.name}",
            )
        )
    if given.rest is not None:
        whole = f"{given.value or ''};{given.rest}"
        found.append(
            _finding(
                Weight.ERROR,
                file,
                given.place,
                f"{given.name} ends at an unquoted ';'",
                f"the shell takes {given.rest!r} for a command",
                setting.source,
                f"export {given.name}='{whole}'",
            )
        )
    if given.value is None:
        return found
    if setting.kind is ValueKind.ALGORITHMS:
        _, faults = read_algo(given.value, known)
        for algo in faults:
            weight = Weight.WARNING if algo.silent else Weight.ERROR
            place = given.at(algo.offset)
            found.append(
                _finding(weight, file, place, f"{given.name}: {algo.what}", algo.why, setting.source, algo.remedy)
            )
        return found
    fault = value_fault(setting, given.value)
    if fault is not None:
        weight = Weight.WARNING if fault.silent else Weight.ERROR
        found.append(_finding(weight, file, given.place, fault.what, fault.why, setting.source, fault.remedy))
    return found


def _name_findings(given: Given, file: str, known: SocFacts) -> list[EnvFinding]:
    ours = given.name.startswith("HCCL_")
    names = [*known.variables, *_others(known.conflicts)]
    if given.name in names:
        return []
    cutoff = _NEAR if ours else _NEAR_ELSEWHERE
    near = difflib.get_close_matches(given.name, known.variables, n=1, cutoff=cutoff)
    if near:
        what = f"{given.name} is no variable of HCCL"
        remedy = f"did you mean {near[0]}?"
        return [_finding(Weight.ERROR, file, given.place, what, "HCCL does not read it", _NAMES, remedy)]
    if ours:
        what = f"{given.name} is not known to autotune"
        why = "it is in none of the documents that the data was made from"
        return [
            _finding(Weight.WARNING, file, given.place, what, why, _NAMES, f"unset {given.name}, if nobody uses it")
        ]
    return []


def _others(conflicts: Iterable[Conflict]) -> list[str]:
    return [name for conflict in conflicts for name, _, _ in conflict.when]


def _of_conflict(conflict: Conflict, launch: Mapping[str, Given], file: str) -> EnvFinding:
    given = launch.get(conflict.when[0][0])
    place = None if given is None else given.place
    return _finding(conflict.weight, file, place, conflict.what, conflict.why, conflict.source, conflict.remedy)


def _finding(
    weight: Weight, file: str, place: Place | None, what: str, why: str, source: str, remedy: str
) -> EnvFinding:
    return EnvFinding(weight=weight, file=file, place=place, what=what, why=why, source=source, remedy=remedy)
