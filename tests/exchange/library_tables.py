"""Tables for the exporters: one of our native backend, and one in the words of each library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from table_strategies import kept, won

from autotune.importing import library_defaults
from autotune.table import DefaultRules, TuningTable, native_defaults
from autotune.types import Collective, Config, DType, KnobValue, OpClass, RuleKey


def key(collective: Collective, n_ranks: int, backend: str = "native", **fields: object) -> RuleKey:
    """float32 and sum, on one host, unless said otherwise."""
    plain = RuleKey(
        backend=backend,
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )
    return replace(plain, **fields)  # type: ignore[arg-type] # the fields of a key


def config(algorithm: str, segment_bytes: int | None = None, **knobs: KnobValue) -> Config:
    return Config(algorithm=algorithm, segment_bytes=segment_bytes, knobs=tuple(sorted(knobs.items())))


def table_of(rules: Mapping[RuleKey, Mapping[int, Config]], backend: str = "native") -> TuningTable:
    """Rules from size -> config; the last size of each key ends its last range."""
    defaults: DefaultRules = native_defaults() if backend == "native" else library_defaults(backend)
    made = {
        found: tuple(
            (kept if made_of.algorithm == "auto" else won)(low, high, made_of)
            for (low, made_of), (high, _) in pairwise(sorted(by_size.items()))
        )
        for found, by_size in rules.items()
    }
    return TuningTable(
        fingerprint="0123456789abcdef",
        environment={"python": "3.11.7"},
        created_at="2026-01-31T12:00:00Z",
        test="a test",
        rules=made,
        defaults=defaults,
    )


_END = config("ring")
_RING, _TREE, _FLAT = config("ring", 65536), config("tree", 262144), config("flat", 262144)


def native_table() -> TuningTable:
    """Every collective, several rank counts, types and placements; words that some libraries do not have."""
    c = Collective
    return table_of(
        {
            key(c.ALL_REDUCE, 4): {
                8: _FLAT,
                512: config("recursive_doubling"),
                8192: _RING,
                262144: _TREE,
                4194304: _END,
            },
            key(c.ALL_REDUCE, 4, dtype=DType.BFLOAT16): {8: _RING, 4194304: _END},
            key(c.ALL_REDUCE, 8, placement=(4, 4)): {1024: config("nhr"), 65536: _RING, 1048577: _END},
            key(c.ALL_GATHER, 3): {30: config("bruck"), 1000: _RING, 100000: config("direct"), 300001: _END},
            key(c.REDUCE_SCATTER, 4): {64: config("recursive_halving_doubling"), 4096: _RING, 65537: _END},
            key(c.BROADCAST, 4): {64: _TREE, 4096: config("chain", 16384), 1048577: _END},
            key(c.REDUCE, 4): {64: _TREE, 4096: config("recursive_halving_doubling"), 65537: _END},
            key(c.ALL_TO_ALL, 4): {64: config("bruck"), 4096: config("pairwise"), 65537: _END},
            key(c.SCATTER, 4): {64: _TREE, 65537: _END},
            key(c.GATHER, 4): {64: _FLAT, 65537: _END},
        }
    )


def hccl_table() -> TuningTable:
    """Engines and executors as the vendor's sweep names them; some of them are not legal."""
    c, end = Collective, config("nhr")
    aiv = {"engine": "aiv", "executor": "sole"}
    return table_of(
        {
            key(c.ALL_REDUCE, 8, "hccl"): {
                8: config("meshoneshot", **aiv),
                65536: config("nhr", engine="aicpu", executor="sole"),
                1048576: config("nhr", engine="dpu", executor="sole"),
                4194304: config("auto"),
                8388609: end,
            },
            key(c.ALL_REDUCE, 8, "hccl", dtype=DType.INT64): {8: config("meshoneshot", **aiv), 65536: end},
            key(c.ALL_GATHER, 8, "hccl"): {64: config("mesh"), 65544: config("nhr"), 1048577: end},
            key(c.REDUCE_SCATTER, 8, "hccl"): {
                1024: config("mesh", **aiv),
                64 << 20: config("mesh", **aiv),
                1 << 30: end,
            },
            key(c.BROADCAST, 8, "hccl"): {64: config("nhr"), 65536: end},
        },
        "hccl",
    )


def nccl_table() -> TuningTable:
    """Protocols and channels in the configs; some of them are not legal."""
    c, end = Collective, config("ring")
    return table_of(
        {
            key(c.ALL_REDUCE, 16, "nccl", placement=(8, 8)): {
                8: config("tree", protocol="ll", channels=2),
                65536: config("nvls", protocol="ll128", channels=16),
                1048576: config("ring", protocol="simple", channels=16),
                6442450944: end,
            },
            key(c.ALL_GATHER, 16, "nccl", placement=(8, 8)): {
                16: config("tree", protocol="ll", channels=2),
                65536: config("pat", protocol="simple", channels=8),
                1048577: end,
            },
            key(c.BROADCAST, 16, "nccl", placement=(8, 8)): {16: config("ring", protocol="ll"), 65536: end},
        },
        "nccl",
    )
