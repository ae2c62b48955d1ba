"""Tables for tests: one written by hand, and random ones. Whatever is drawn here is sound; tests plant the faults."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st
from strategies import times_us

from autotune.table import DefaultRow, DefaultRules, Rule, TuningTable
from autotune.types import Collective, Config, DType, Evidence, Memory, OpClass, RuleKey, Spread
from autotune.units import MAX_BYTES

FLAT = Config(algorithm="flat", segment_bytes=65536)
DIRECT = Config(algorithm="direct", segment_bytes=262144, knobs=(("outbox_store", "dual"), ("slices", 4)))
INT8 = Config(algorithm="ring", segment_bytes=262144, codec="int8")


def key_of(collective: Collective, *placement: int, memory: Memory = Memory.PRIVATE) -> RuleKey:
    """A key of so many ranks on each host, float32 sums where elements are combined."""
    return RuleKey(
        backend="native",
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=sum(placement),
        placement=tuple(sorted(placement)),
        memory=memory,
    )


def kept(from_bytes: int, to_bytes: int, config: Config = FLAT) -> Rule:
    """A measured rule that keeps the default."""
    return Rule(
        from_bytes=from_bytes,
        to_bytes=to_bytes,
        config=config,
        evidence=Evidence.MEASURED,
        is_default=True,
        n_rounds=9,
        median_us=2.5,
        low_us=2.25,
        high_us=3.0,
        trial_ids=(7,),
    )


def won(from_bytes: int, to_bytes: int, config: Config = DIRECT) -> Rule:
    """A measured rule that leaves the default."""
    rule = replace(kept(from_bytes, to_bytes, config), is_default=False, gain=1.31, gain_low=1.25, gain_high=1.38)
    return replace(rule, ring_gain=1.5, trial_ids=(12, 15))


ALL_REDUCE_4 = key_of(Collective.ALL_REDUCE, 4)


def defaults(backend: str = "native") -> DefaultRules:
    """Flat below 64 KiB, then direct, for every collective."""
    return DefaultRules(
        backend=backend,
        rows=tuple(
            DefaultRow(collective=collective, ranks_from=1, ranks_to=None, from_bytes=size, config=config)
            for collective in Collective
            for size, config in ((0, FLAT), (65536, replace(DIRECT, knobs=())))
        ),
    )


def sample_table() -> TuningTable:
    """A small table with every kind of rule; tests/golden/tables holds its files."""
    lossy = replace(ALL_REDUCE_4, max_error=0.01)
    broadcast = replace(
        ALL_REDUCE_4, collective=Collective.BROADCAST, dtype=None, op_class=None, n_ranks=3, placement=(1, 2)
    )
    simulated = replace(kept(8, 1025), evidence=Evidence.SIMULATED, trial_ids=())
    return TuningTable(
        fingerprint="12e4567890123456",
        host_fingerprints=("0123456789abcdef", "12e4567890123456"),
        environment={"python": "3.11.7", "cpu_model": "Kunpeng 920 \N{REGISTERED SIGN}"},
        created_at="2026-01-31T12:00:00Z",
        test="one-sided Wilcoxon signed-rank test on paired rounds, p < 0.01",
        rules={
            lossy: (won(4096, 65537, INT8),),
            ALL_REDUCE_4: (kept(8, 1024), won(1024, 65536), kept(65536, 1048577)),
            broadcast: (simulated,),
        },
        defaults=defaults(),
    )


def configs(*, lossy: bool) -> st.SearchStrategy[Config]:
    knobs = st.dictionaries(words, st.integers(-(2**63) + 1, 2**63 - 1) | words, max_size=3)
    return st.builds(
        Config,
        algorithm=words,
        segment_bytes=st.none() | st.integers(1, MAX_BYTES),
        codec=st.sampled_from(("none", "int8", "threshold(0.5)")) if lossy else st.just("none"),
        knobs=knobs.map(lambda found: tuple(sorted(found.items()))),
    )


@st.composite
def rules(draw: st.DrawFn, from_bytes: int, to_bytes: int, *, lossy: bool) -> Rule:
    low_us, median_us, high_us = draw(ordered)
    is_default = draw(st.booleans())
    evidence = draw(st.sampled_from(Evidence))
    gains: tuple[float | None, float | None, float | None] = (None, None, None)
    if not is_default and (evidence is Evidence.MEASURED or draw(st.booleans())):
        gains = draw(ordered)
    return Rule(
        from_bytes=from_bytes,
        to_bytes=to_bytes,
        config=draw(configs(lossy=lossy)),
        evidence=evidence,
        is_default=is_default,
        n_rounds=draw(st.integers(1, 200)),
        median_us=median_us,
        low_us=low_us,
        high_us=high_us,
        gain_low=gains[0],
        gain=gains[1],
        gain_high=gains[2],
        ring_gain=draw(st.none() | times_us),
        trial_ids=tuple(draw(st.lists(st.integers(0, 2**40), min_size=1, max_size=3, unique=True))),
    )


@st.composite
def rule_lists(draw: st.DrawFn, *, lossy: bool) -> tuple[Rule, ...]:
    """Adjoining ranges over a few sizes."""
    edges = sorted(draw(st.sets(sizes, min_size=2, max_size=5)))
    return tuple(draw(rules(low, high, lossy=lossy)) for low, high in pairwise(edges))


@st.composite
def keys(draw: st.DrawFn) -> RuleKey:
    """Of few values, so that keys which differ in one field only are common."""
    collective = draw(st.sampled_from((Collective.ALL_REDUCE, Collective.BROADCAST)))
    placement = tuple(sorted(draw(st.lists(st.integers(1, 2), min_size=1, max_size=2))))
    return RuleKey(
        backend="native",
        collective=collective,
        dtype=draw(st.sampled_from((DType.FLOAT32, DType.BFLOAT16))) if collective.computes else None,
        op_class=draw(st.sampled_from(OpClass)) if collective.computes else None,
        n_ranks=sum(placement),
        placement=placement,
        memory=draw(st.sampled_from(Memory)),
        max_error=draw(st.sampled_from((None, None, 0.001, 0.01, 0.3))),
    )


@st.composite
def default_rules(draw: st.DrawFn) -> DefaultRules:
    """One to three bands of rank counts with one to three rows each, for every collective.

    Some collectives have such rows for symmetric memory too, and some for ranks on several hosts.
    """
    one_host = (Memory.PRIVATE, Spread.ONE_HOST)
    kinds = [(Memory.SYMMETRIC, Spread.ONE_HOST), *((Memory.PRIVATE, spread) for spread in Spread)]
    more = draw(st.lists(st.tuples(st.sampled_from(Collective), st.sampled_from(kinds)), max_size=3))
    rows = []
    for collective, (memory, spread) in dict.fromkeys([*((c, one_host) for c in Collective), *more]):
        cuts = sorted(draw(st.sets(st.integers(2, 6), max_size=2)))
        for ranks_from, ranks_to in zip((1, *cuts), (*cuts, None), strict=True):
            for from_bytes in (0, *sorted(draw(st.sets(st.integers(1, 4096), max_size=2)))):
                config = draw(st.sampled_from((FLAT, DIRECT, Config(algorithm="ring"))))
                rows.append(
                    DefaultRow(
                        collective=collective,
                        ranks_from=ranks_from,
                        ranks_to=ranks_to,
                        from_bytes=from_bytes,
                        config=config,
                        memory=memory,
                        spread=spread,
                    )
                )
    return DefaultRules(backend="native", rows=tuple(draw(st.permutations(rows))))


@st.composite
def tables(draw: st.DrawFn) -> TuningTable:
    found = draw(st.lists(keys(), max_size=4, unique=True))
    fingerprints = st.text("0123456789abcdef", min_size=16, max_size=16)
    return TuningTable(
        fingerprint=draw(st.none() | fingerprints),
        host_fingerprints=tuple(sorted(draw(st.sets(fingerprints, max_size=2)))),
        environment=draw(st.dictionaries(texts, texts, max_size=3)),
        created_at=draw(st.sampled_from(("2026-01-31T12:00:00Z", "2031-12-01T23:59:59Z"))),
        test=draw(texts),
        rules={key: draw(rule_lists(lossy=key.max_error is not None)) for key in found},
        defaults=draw(default_rules()),
    )


texts = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=12)
words = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
ordered = st.tuples(times_us, times_us, times_us).map(lambda three: (min(three), sorted(three)[1], max(three)))
# Small ones, so that edges of several keys and of the defaults meet; and the ends of what is legal.
sizes = st.integers(0, 64) | st.integers(0, 8192) | st.sampled_from((MAX_BYTES, MAX_BYTES + 1))
