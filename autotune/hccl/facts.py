"""What is known of HCCL on one family of chips, as values. ``load.py`` reads them from socs/*.json; pure.

Units: buffers in MB as HCCL counts them (2^20 bytes), sizes in bytes, times in microseconds, bandwidths in 1e9 bytes
per second.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from ..types import Collective, DType, OpClass
from .soc import Soc


class ValueKind(enum.Enum):
    """What a setting's value is.

    ``ALGORITHMS`` is the syntax of HCCL_ALGO, ``CODES`` a word that torch_npu wants as a number, ``FREE`` anything,
    ``NO_EFFECT`` a setting that HCCL passes over on this chip.
    """

    WHOLE = "whole"
    WORDS = "words"
    SHARE = "share"
    ALGORITHMS = "algorithms"
    CODES = "codes"
    FREE = "free"
    NO_EFFECT = "no_effect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A variable of the process, or a key of ``hccl_config``.

    Args:
        default: HCCL's own value; None where it has none or it is not published.
        low: of WHOLE values, as high, multiple_of and unit.
        advised: the highest value that the documentation advises.
        words: of WORDS values, and of CODES in the order of their codes.
        codes: of CODES values: word -> number.
        tries: values that the tuner tries besides the default.
        several_hosts: it acts between servers only.
        beside: variables that have to be set with it for it to act.
        why: of NO_EFFECT, or why nothing is tried.
        source: the public document or file.
    """

    name: str
    kind: ValueKind
    source: str
    default: int | float | str | None = None
    low: int | None = None
    high: int | None = None
    multiple_of: int | None = None
    unit: str | None = None
    advised: int | None = None
    words: tuple[str, ...] = ()
    codes: Mapping[str, int] | None = None
    tries: tuple[int | float | str, ...] = ()
    several_hosts: bool = False
    beside: Mapping[str, str] | None = None
    why: str | None = None


class Test(enum.Enum):
    """How a conflict looks at a variable."""

    __test__ = False  # not a test case, whatever pytest makes of the name

    IS = "is"
    NOT = "not"
    SET = "set"
    BELOW = "below"
    NAMES = "names"
    IS_OR_UNSET = "is or unset"
    BELOW_OR_UNSET = "below or unset"


class Weight(enum.Enum):
    """``ERROR``: the job fails or hangs. ``WARNING``: a setting does not do what it seems to."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Settings that do not go together.

    Args:
        when: (variable, test, value), all of which hold; the first variable is the one that is blamed.
    """

    weight: Weight
    when: tuple[tuple[str, Test, str], ...]
    what: str
    why: str
    source: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """What an expansion mode carries out; everything else silently runs as by default.

    Args:
        collectives: that it has.
        computes: element types of those that combine elements.
        moves: element types of the others.
        ops: of those that combine elements.
        servers: the most; None: any number.
    """

    collectives: frozenset[Collective]
    computes: frozenset[DType]
    moves: frozenset[DType]
    ops: frozenset[OpClass]
    servers: int | None
    source: str


class Buffer(enum.Enum):
    """Which formula gives the least HCCL_BUFFSIZE of MoE dispatch and combine (moe.py)."""

    A2_FULLMESH = "a2_fullmesh"
    A2_HIERARCHY = "a2_hierarchy"
    A3_FULLMESH = "a3_fullmesh"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeAlgorithm:
    """A ``comm_alg`` of moe_distribute_dispatch and combine.

    Args:
        ranks: the legal ones; empty where a range is given.
        quant_modes: legal values of ``comm_quant_mode``.
        buffer: None where no formula is published.
    """

    comm_alg: str
    ranks: frozenset[int]
    quant_modes: tuple[int, ...]
    buffer: Buffer | None
    source: str


class Counted(enum.Enum):
    """What a threshold is compared with: message_bytes, that over all ranks, or that over the devices of a server."""

    MESSAGE = "message"
    PER_RANK = "per_rank"
    PER_DEVICE = "per_device"


class Times(enum.Enum):
    """What a threshold is multiplied by."""

    ONE = "one"
    RANKS = "ranks"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A size in bytes, times something."""

    counted: Counted
    n_bytes: int
    times: Times

    def reached_by(self, message_bytes: int, n_ranks: int, n_devices: int) -> float:
        """The size as the threshold counts it, over the threshold."""
        over = {Counted.MESSAGE: 1, Counted.PER_RANK: n_ranks, Counted.PER_DEVICE: n_devices}[self.counted]
        times = {Times.ONE: 1, Times.RANKS: n_ranks, Times.DEVICES: n_devices}[self.times]
        return message_bytes / over / (self.n_bytes * times)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRule:
    """One branch of HCCL's own choice; of several that fit, the first one counts.

    Args:
        servers: lowest and highest number of servers.
        ranks: the same of ranks; None: any.
        mode: of HCCL_OP_EXPANSION_MODE; None: any.
        schedule: what the executor does, in the registry's names; ``level1``, ``level1_static`` and ``pipeline`` stand
            for the choice between servers (selection.py).
    """

    collective: Collective
    servers: tuple[int, int]
    ranks: tuple[int, int] | None
    mode: str | None
    power_of_two: bool
    several_devices: bool
    up_to: Threshold | None
    below: Threshold | None
    at_least: Threshold | None
    executor: str
    schedule: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What a call costs under an expansion mode.

    Args:
        call_us: in any case.
        message_us: of a rank for each message.
        floor_us: no call takes less.
    """

    call_us: float
    message_us: float
    floor_us: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRules:
    """HCCL's own choice on a family of chips.

    Args:
        halving: what recursive halving and doubling is on these chips.
        alpha_us: of a step between servers, in HCCL's own model.
        beta_gb_per_s: between servers, in HCCL's own model.
        copy_gb_per_s: inside a device.
    """

    engines: Mapping[str, Engine]
    halving: str
    alpha_us: float
    beta_gb_per_s: float
    copy_gb_per_s: float
    alpha_source: str
    rules: tuple[SelectionRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SocFacts:
    """Everything that is known of HCCL on one family of chips.

    Args:
        machines: names of topology/machines.
        chips: patterns of npu-smi's chip names.
        level1: HCCL's operator -> algorithms between servers.
        level2: algorithms between super pods.
        deprecated: still read, and not to be used.
        modes: expansion modes that do not carry out everything.
        selection: None where HCCL's choice is not published well enough to be modelled.
    """

    soc: Soc
    title: str
    machines: tuple[str, ...]
    chips: tuple[str, ...]
    level1: Mapping[str, tuple[str, ...]]
    level2: tuple[str, ...]
    deprecated: tuple[str, ...]
    variables: Mapping[str, Setting]
    group_options: Mapping[str, Setting]
    modes: Mapping[str, Mode]
    conflicts: tuple[Conflict, ...]
    moe: tuple[MoeAlgorithm, ...]
    selection: SelectionRules | None

    @property
    def own_choices(self) -> tuple[Collective, ...]:
        """Of which collectives HCCL's own choice is known."""
        return tuple(dict.fromkeys(rule.collective for rule in self.selection.rules)) if self.selection else ()
