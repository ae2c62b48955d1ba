"""``autotune doctor --env``: what is wrong with HCCL's settings in an environment or a start script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import UsageError
from .output import say, show, show_json

if TYPE_CHECKING:
    from ..hccl import Soc
    from ..hccl.lint import EnvFinding
    from ..hccl.moe import MoeShape
    from ..hccl.script import Script

_NUMBERS = ("ranks", "tokens", "hidden", "experts", "top_k", "shared", "itemsize", "comm_quant_mode")


def lint_settings(file: Path | None, soc_word: str | None, moe: str | None, *, as_json: bool) -> None:
    """Print the findings.

    Raises:
        AutotuneError: the file cannot be read, or is no shell text.
        typer.Exit: with 1 where something is an error.
    """
    from ..hccl.facts import Weight
    from ..hccl.lint import lint, lint_moe
    from ..report.findings import findings_view

    soc = _soc(soc_word)
    script, name = _script(file)
    found = lint(script, name, soc)
    if moe is not None:
        shape, comm_alg, quant_mode = _moe(moe)
        if soc is None:
            raise UsageError("--moe needs to know the chips", remedy="give --soc A2 or --soc A3")
        found += lint_moe(script, name, soc, shape, comm_alg or _usual(soc), quant_mode)
    if file is None:
        found += _installed(name)
    if as_json:
        show_json({"soc": None if soc is None else soc.value, "findings": [_fields(one) for one in found]})
    elif found:
        rows = [(one.weight.value, one.where, f"{one.what}: {one.why} ({one.source})", one.remedy) for one in found]
        show(findings_view(rows))
    else:
        show(f"{name}: nothing is wrong with the settings of HCCL")
    if soc is None:
        say("which chips these are is not known, so only what is wrong on all of them is said; --soc names them")
    if any(one.weight is Weight.ERROR for one in found):
        raise typer.Exit(1)


def _soc(word: str | None) -> Soc | None:
    from ..hccl import Soc
    from ..hccl.probed import soc_of_topology
    from ..plan.plan import named
    from ..topology.host import collect, parse

    if word is not None:
        return named("SoC", word, {soc.value: soc for soc in Soc})
    return soc_of_topology(parse(collect()))


def _script(file: Path | None) -> tuple[Script, str]:
    from ..hccl.script import environment_script, read_script

    if file is None:
        return environment_script(os.environ), "environment"
    try:
        text = file.read_bytes().decode()
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{str(file)!r} cannot be read: {reason}", remedy="give the start script") from err
    return read_script(text, str(file)), str(file)


def _moe(text: str) -> tuple[MoeShape, str | None, int]:
    from ..hccl.moe import MoeShape

    example = "--moe ranks=16,tokens=256,hidden=7168,experts=256,top_k=8"
    given = dict(part.partition("=")[::2] for part in text.split(","))
    comm_alg = given.pop("comm_alg", None)
    for name, value in given.items():
        if name not in _NUMBERS or not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise UsageError(f"--moe: {name}={value} is not one of {', '.join(_NUMBERS)} with a number", remedy=example)
    numbers = {name: int(value) for name, value in given.items()}
    quant_mode = numbers.pop("comm_quant_mode", 0)
    try:
        return MoeShape(n_ranks=numbers.pop("ranks"), **numbers), comm_alg, quant_mode
    except (KeyError, TypeError, ValueError) as err:
        raise UsageError(f"--moe {text!r} is not a whole MoE layer", remedy=example) from err


def _usual(soc: Soc) -> str:
    from ..hccl import facts

    known = facts(soc).moe
    if not known:
        raise UsageError(f"no minimum of MoE buffers is published for {soc.value}", remedy="leave --moe out")
    return known[0].comm_alg


def _installed(name: str) -> list[EnvFinding]:
    from ..hccl.facts import Weight
    from ..hccl.installed import torch_npu_fault
    from ..hccl.lint import EnvFinding

    fault = torch_npu_fault(os.environ)
    if fault is None:
        return []
    what, remedy = fault
    source = "Ascend/pytorch, torch_npu/_init/core/module_loader.py"
    why = "torch loads what registers under torch.backends, and torch_npu needs CANN's libraries"
    return [EnvFinding(weight=Weight.ERROR, file=name, place=None, what=what, why=why, source=source, remedy=remedy)]


def _fields(one: EnvFinding) -> dict[str, object]:
    return {
        "severity": one.weight.value,
        "file": one.file,
        "line": None if one.place is None else one.place.line,
        "column": None if one.place is None else one.place.column,
        "what": one.what,
        "why": one.why,
        "source": one.source,
        "remedy": one.remedy,
    }
