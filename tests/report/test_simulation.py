"""Predictions as text and JSON: whole texts, from predictions that were worked out by hand."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from autotune.report.simulation import Prediction, Priced, scaling_view, simulation_document, simulation_view
from autotune.types import Collective, Config, DType, OpClass, Problem, RuleKey

RING, TREE, DIRECT = (Config(algorithm=name, segment_bytes=64 << 10) for name in ("ring", "tree", "direct"))


def predicted(n_ranks: int, size: int, times_us: dict[Config, float], placement: tuple[int, ...] = ()) -> Prediction:
    key = RuleKey(
        backend="native",
        collective=Collective.ALL_REDUCE,
        dtype=DType.FLOAT32,
        op_class=OpClass.SUM,
        n_ranks=n_ranks,
        placement=placement or (n_ranks,),
    )
    priced = [Priced(config=config, time_us=time_us) for config, time_us in times_us.items()]
    return Prediction(
        size_bytes=size,
        problem=Problem(key=key, message_bytes=size),
        priced=tuple(sorted(priced, key=lambda one: one.time_us)),
        default=DIRECT,
        least_us=10.0,
        refused=(("hierarchical", "it needs two or more groups of ranks"),),
    )


SMALL = predicted(2, 1000, {RING: 40.0, DIRECT: 20.0})
LARGE = predicted(2, 1 << 20, {RING: 100.0, TREE: 150.0, DIRECT: 200.0})
FOUR = predicted(4, 1000, {RING: 80.0, DIRECT: 25.0}, placement=(2, 2))


def text(view: RenderableType) -> str:
    page = io.StringIO()
    Console(file=page, width=200, markup=False, highlight=False).print(view)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def test_a_line_for_each_size() -> None:
    assert (
        text(simulation_view("Two boxes", [SMALL, LARGE]))
        == """\
Two boxes, simulated

all_reduce float32 sum, 2 ranks
 size  best config  time us  algbw  busbw  of limit   ring   tree
1000B  direct            20   0.05   0.05      50 %  2.00x      -
 1MiB  ring/64KiB       100  10.49  10.49      10 %  1.00x  1.50x
not priced: hierarchical, since it needs two or more groups of ranks

algbw, busbw: GB/s (1e9 bytes/s); of limit: busbw over the theoretical one of the links
ring, tree: their time, each with its best segment, over that of the best config
"""
    )


def test_a_line_for_each_rank_count() -> None:
    assert (
        text(scaling_view("Two boxes", [SMALL, FOUR]))
        == """\
Two boxes, all_reduce float32 sum, simulated

 size  ranks  hosts  best config  time us  algbw  busbw  of limit  speed-up   ring  tree
1000B      2      1  direct            20   0.05   0.05      50 %      1.00  2.00x     -
           4      2  direct            25   0.04   0.06      40 %      1.60  3.20x     -

algbw, busbw: GB/s (1e9 bytes/s); of limit: busbw over the theoretical one of the links
ring, tree: their time, each with its best segment, over that of the best config
speed-up: bytes of all ranks in a second, over those of the fewest ranks; linear is n over the fewest
"""
    )


def test_json_has_every_config_and_says_what_it_rests_on() -> None:
    document = simulation_document("Two boxes", [SMALL, FOUR])
    assert (document["topology"], document["evidence"]) == ("Two boxes", "simulated")
    first, second = document["predictions"]
    assert first["config"]["algorithm"] == "direct"
    assert [(one["config"]["algorithm"], one["time_us"]) for one in first["configs"]] == [
        ("direct", 20.0),
        ("ring", 40.0),
    ]
    assert first["refused"] == [{"algorithm": "hierarchical", "reason": "it needs two or more groups of ranks"}]
    assert (first["utilisation"], first["placement"], second["placement"]) == (0.5, [2], [2, 2])
    assert second["speed_up"] == pytest.approx(1.6)


def test_an_unknown_limit_is_a_dash() -> None:
    (line,) = [x for x in text(simulation_view("Here", [unlimited(SMALL)])).splitlines() if "direct" in x]
    assert line.split()[5] == "-"


def unlimited(one: Prediction) -> Prediction:
    return Prediction(
        size_bytes=one.size_bytes,
        problem=one.problem,
        priced=one.priced,
        default=one.default,
        least_us=None,
    )
