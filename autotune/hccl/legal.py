"""What may be tried on HCCL: configs that are illegal, act on nothing, or are known to hang are never run. Pure.

In:  the facts of a chip, a key, a config, what runs beside. Out: why not, or None; and the configs that are worth it.
May not touch: torch, devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..portfolio.knobs import IN_PIECES, MOST, PIECES
from ..types import Config, KnobValue, Problem, RuleKey
from .conflicts import conflicts_of
from .facts import Setting, SocFacts, ValueKind, Weight
from .groups import AUTO, PORTABLE, HcclFamily, is_process_knob, mode_of
from .soc import OPERATORS
from .values import value_fault

_FAMILY = HcclFamily()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a group shares its devices and its process with.

    Args:
        environ: variables that are set already.
        mc2: MC2 operators (fused matmul and communication, MoE dispatch and combine) run in the same process.
        aiv_taken: another communicator of the process has AIV.
        least_buffer_mb: of MoE dispatch and combine (moe.py); None where there are none.
    """

    environ: Mapping[str, str] = field(default_factory=dict)
    mc2: bool = False
    aiv_taken: bool = False
    least_buffer_mb: int | None = None


ALONE = Surroundings()
"""Nothing else: a tuning run."""


def objection(facts: SocFacts, key: RuleKey, config: Config, around: Surroundings = ALONE) -> str | None:
    """Why the config is not to be tried, with the source; None where nothing is known against it."""
    process = {**around.environ, **{n: str(v) for n, v in _FAMILY.process_settings(config)}}
    settings = _FAMILY.group_settings(config)
    return (
        _against_algorithm(facts, key, config)
        or _against_knobs(facts, key, config, process)
        or _against_mode(facts, key, mode_of(settings, tuple(process.items())), around)
        or _against_buffer(dict(settings), process, around)
        or _against_process(facts, process)
    )


def candidates(
    facts: SocFacts, problem: Problem, portable: Iterable[Config], around: Surroundings = ALONE
) -> tuple[Config, ...]:
    """HCCL's own choice first, then what may be tried: one setting changed at a time, and each of our schedules."""
    key = problem.key
    found = [Config(algorithm=AUTO), *_algorithms(facts, key), *_settings(facts), *_in_pieces(facts, problem)]
    found += [
        Config(algorithm=f"{PORTABLE}{config.algorithm}", segment_bytes=config.segment_bytes) for config in portable
    ]
    return tuple(config for config in found if objection(facts, key, config, around) is None)


def _algorithms(facts: SocFacts, key: RuleKey) -> Iterator[Config]:
    for word in facts.level1.get(OPERATORS.get(key.collective, ""), ()):
        yield Config(algorithm=word)


def _in_pieces(facts: SocFacts, problem: Problem) -> Iterator[Config]:
    """AIV for messages above the size where HCCL leaves it, in as many calls as stay below."""
    key = problem.key
    servers = len(key.placement)
    code = facts.group_options["hccl_op_expansion_mode"].codes or {}
    for rule in facts.selection.rules if facts.selection else ():
        fits = rule.collective is key.collective and rule.servers[0] <= servers <= rule.servers[1]
        fits = fits and (rule.ranks is None or rule.ranks[0] <= key.n_ranks <= rule.ranks[1])
        if rule.mode != "AIV" or rule.up_to is None or not fits or "AIV" not in code:
            continue
        pieces = math.ceil(rule.up_to.reached_by(problem.message_bytes, key.n_ranks, key.n_ranks // servers))
        if 1 < pieces <= MOST:
            yield Config(algorithm=AUTO, knobs=(("hccl_op_expansion_mode", code["AIV"]), (PIECES, pieces)))


def _settings(facts: SocFacts) -> Iterator[Config]:
    for setting in facts.group_options.values():
        for value in setting.tries:
            yield Config(algorithm=AUTO, knobs=((setting.name, _knob(setting, value)),))
    for setting in facts.variables.values():
        if setting.name in ("HCCL_BUFFSIZE", "HCCL_OP_EXPANSION_MODE"):
            continue  # the same for a group alone: hccl_buffer_size, hccl_op_expansion_mode
        for value in setting.tries:
            beside = {} if setting.beside is None else setting.beside
            knobs = {setting.name: _knob(setting, value), **beside}
            yield Config(algorithm=AUTO, knobs=tuple(sorted(knobs.items())))


def _knob(setting: Setting, value: KnobValue | float) -> KnobValue:
    if setting.codes is not None:
        return setting.codes[str(value)]
    return str(value) if isinstance(value, float) else value


def _against_algorithm(facts: SocFacts, key: RuleKey, config: Config) -> str | None:
    if config.algorithm.startswith(PORTABLE):
        return None
    operator = OPERATORS.get(key.collective)
    if operator is None:
        return f"HCCL has no {key.collective.value}"
    if config.algorithm == AUTO:
        return None
    legal = facts.level1[operator]
    source = facts.variables["HCCL_ALGO"].source
    if config.algorithm not in legal:
        return f"{facts.soc.value} has no {config.algorithm} for {operator}: {', '.join(legal) or 'none'} ({source})"
    if len(key.placement) == 1:
        return f"HCCL_ALGO chooses between servers, and these ranks are on one ({source})"
    return None


def _against_knobs(facts: SocFacts, key: RuleKey, config: Config, process: Mapping[str, str]) -> str | None:
    for name, value in config.knobs:
        if name == PIECES:
            if config.algorithm.startswith(PORTABLE) or key.collective not in IN_PIECES:
                return f"{key.collective.value} with {config.algorithm} is not cut into pieces"
            continue
        setting = (facts.variables if is_process_knob(name) else facts.group_options).get(name)
        if setting is None:
            return f"{name} is no setting of HCCL on {facts.soc.value}"
        fault = value_fault(setting, str(value))
        if fault is not None:
            return f"{fault.what}: {fault.why} ({setting.source})"
        if setting.several_hosts and len(key.placement) == 1:
            return f"{name} acts between servers ({setting.source})"
        missing = [other for other in setting.beside or () if other not in process]
        if missing:
            return f"{name} acts beside {missing[0]} alone ({setting.source})"
        if is_process_knob(name) and setting.kind is ValueKind.WORDS and value == "AIV":
            return f"{name}=AIV is for every communicator of the process, and only one may have it ({setting.source})"
    return None


def _against_mode(facts: SocFacts, key: RuleKey, mode: str | None, around: Surroundings) -> str | None:
    if mode == "AIV" and around.mc2:
        return "AIV beside MC2 operators hangs (vllm-project/vllm-ascend#14928, #3881)"
    if mode == "AIV" and around.aiv_taken:
        return "AIV on two communicators that work in parallel (HCCL_OP_EXPANSION_MODE.md)"
    limits = None if mode is None else facts.modes.get(mode)
    if limits is None:
        return None
    types = limits.computes if key.collective.computes else limits.moves
    if key.collective not in limits.collectives:
        return f"{mode} does not carry out {key.collective.value} on {facts.soc.value} ({limits.source})"
    if key.dtype is not None and key.dtype not in types:
        return f"{mode} has no {key.dtype.value} for {key.collective.value} ({limits.source})"
    if key.op_class is not None and key.op_class not in limits.ops:
        return f"{mode} has no {key.op_class.value} ({limits.source})"
    if limits.servers is not None and len(key.placement) > limits.servers:
        return f"{mode} is for one server on {facts.soc.value} ({limits.source})"
    return None


def _against_buffer(settings: Mapping[str, KnobValue], process: Mapping[str, str], around: Surroundings) -> str | None:
    given = settings.get("hccl_buffer_size", process.get("HCCL_BUFFSIZE", "200"))
    if around.least_buffer_mb is not None and int(given) < around.least_buffer_mb:
        return f"a buffer of {given} MB is below the {around.least_buffer_mb} MB of MoE dispatch and combine"
    return None


def _against_process(facts: SocFacts, process: Mapping[str, str]) -> str | None:
    for conflict in conflicts_of(facts, process):
        if conflict.weight is Weight.ERROR:
            return f"{conflict.what}: {conflict.why} ({conflict.source})"
    return None
