"""How configs of the backend ``hccl`` fall on process groups: a `portfolio.Family`. Pure.

A config's algorithm is ``auto`` (HCCL's own choice), an algorithm of HCCL_ALGO between servers, or one of our schedules
over HCCL's point-to-point, written ``portable:ring``. Its knobs are keys of ``hccl_config`` (the group's), or
variables that begin with ``HCCL_`` (the process's). A group is made with all of it at once and keeps it
(Ascend/pytorch, ProcessGroupHCCL.cpp), and costs twice its buffer on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..portfolio.family import ANY, GLOO, Family, KnobFamily, Settings
from ..types import Collective, Config, KnobValue
from .algo import write_algo
from .soc import OPERATORS

BACKEND = "hccl"
AUTO = "auto"
PORTABLE = "portable:"

_MIB = 1 << 20
_GROUP_KNOBS = ("hccl_", "qos_")
_BUFFER_MB = 200  # HCCL_BUFFSIZE of HCCL, where nothing sets it
_MODES = {1: "HOST", 2: "AI_CPU", 3: "AIV", 4: "AIV", 5: "CCU_MS", 6: "CCU_SCHED"}
"""Of hccl_op_expansion_mode (Ascend/pytorch, ProcessGroupHCCL.cpp); 4 is AIV alone, without a way back."""


def is_process_knob(name: str) -> bool:
    """Whether a knob is a variable of the process."""
    return name.startswith("HCCL_")


class HcclFamily:
    """Implements `portfolio.Family`."""

    backend = BACKEND

    def process_settings(self, config: Config) -> Settings:
        return tuple((name, value) for name, value in config.knobs if is_process_knob(name))

    def group_settings(self, config: Config) -> Settings:
        return tuple((name, value) for name, value in config.knobs if name.startswith(_GROUP_KNOBS))

    def algorithm(self, collective: Collective, config: Config) -> str | None:
        if config.algorithm.startswith(PORTABLE):
            return ANY
        return None if config.algorithm == AUTO else config.algorithm

    def schedule(self, config: Config) -> Config | None:
        if not config.algorithm.startswith(PORTABLE):
            return None
        kept = tuple(
            knob for knob in config.knobs if not is_process_knob(knob[0]) and not knob[0].startswith(_GROUP_KNOBS)
        )
        return replace(config, algorithm=config.algorithm.removeprefix(PORTABLE), knobs=kept)

    def made(self, settings: Settings, algorithms: Mapping[Collective, str]) -> dict[str, KnobValue]:
        options: dict[str, KnobValue] = dict(settings)
        if algorithms:
            options["hccl_algo"] = write_algo({OPERATORS[c]: word for c, word in algorithms.items()})
        return options

    def memory_bytes(self, settings: Settings, process: Settings) -> int:
        buffer_mb = dict(settings).get("hccl_buffer_size", dict(process).get("HCCL_BUFFSIZE", _BUFFER_MB))
        return 2 * int(buffer_mb) * _MIB

    def exclusive(self, settings: Settings, process: Settings) -> str | None:
        """AIV must not be set on two communicators that work in parallel (HCCL_OP_EXPANSION_MODE.md)."""
        return "AIV" if mode_of(settings, process) == "AIV" else None


def mode_of(settings: Settings, process: Settings) -> str | None:
    """The expansion mode that a group gets; None where nothing sets it. The group's own setting comes first."""
    code = dict(settings).get("hccl_op_expansion_mode", 0)
    if code:
        return _MODES.get(int(code))
    word = dict(process).get("HCCL_OP_EXPANSION_MODE")
    return None if word is None else str(word)


def family_of(backend: str) -> Family:
    """How a backend's configs fall on groups; those of other backends than HCCL and gloo all fall on a plain one."""
    known: dict[str, Family] = {BACKEND: HcclFamily(), GLOO.backend: GLOO}
    return known.get(backend) or KnobFamily(backend=backend)
