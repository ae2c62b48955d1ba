from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report.made import DIRECT, RING, a_key, a_problem, lines

from autotune.measure import Comparison, Failure, Interval
from autotune.report.bench_table import BenchLines, BenchResult, bench_document, scaling_view
from autotune.types import Collective, TrialState, WrongElement

GAIN = Comparison(n_rounds=15, median=1.31, low=1.25, high=1.38, p_value=0.001)


def a_result(n_ranks: int = 2, time_us: float = 100.0, collective: Collective = Collective.ALL_REDUCE) -> BenchResult:
    return BenchResult(
        contender=str(RING),
        size_bytes=1 << 20,
        problem=a_problem(1 << 20, a_key(n_ranks, collective)),
        config=RING,
        time_us=Interval(n_values=15, median=time_us, low=time_us * 0.9, high=time_us * 1.1),
    )


def the_lines(*results: BenchResult, links: bool = False) -> list[str]:
    form = BenchLines(
        [(result.contender, result.config, result.has_rule) for result in results],
        n_rounds=15,
        compared=len(results) > 1,
        links=links,
    )
    return [*form.heading.splitlines(), *(line for result in results for line in form.line(result).splitlines())]


def test_bandwidths_are_those_of_nccl_tests() -> None:
    result = a_result(4)
    assert result.algbw_gb_per_s == pytest.approx(10.48576)
    assert result.busbw_gb_per_s == pytest.approx(10.48576 * 2 * 3 / 4)
    assert a_result(4, collective=Collective.ALL_GATHER).busbw_gb_per_s == pytest.approx(10.48576 * 3 / 4)


@pytest.mark.parametrize(
    ("collective", "count"), [(Collective.ALL_REDUCE, 1 << 18), (Collective.REDUCE_SCATTER, 1 << 16)]
)
def test_count_is_what_the_call_is_given(collective: Collective, count: int) -> None:
    assert a_result(4, collective=collective).count == count


def test_a_line_has_the_columns_of_nccl_tests() -> None:
    heading, line = the_lines(a_result())[-2:]
    assert heading.split() == [
        "ranks",
        "size",
        "count",
        "type",
        "op",
        "config",
        "time",
        "us",
        "algbw",
        "busbw",
        "wrong",
    ]
    assert line.split() == ["2", "1MiB", "262144", "float32", "sum", "ring/64KiB", "100", "10.49", "10.49", "0"]


def test_what_only_moves_has_bytes_for_a_type_and_no_operation() -> None:
    assert the_lines(a_result(collective=Collective.BROADCAST))[-1].split()[2:5] == ["1048576", "uint8", "-"]


def test_columns_stay_aligned_from_line_to_line() -> None:
    tuned = replace(a_result(2, 76.0), contender="tuned", config=DIRECT, has_rule=True, gain=GAIN)
    found = the_lines(a_result(), tuned, replace(tuned, contender="default", gain=None, same_as_first=True))
    heading, first, second, third = found[-4:]
    for title, cells in (("time us", ("100", "76", "76")), ("wrong", ("0", "0", "0"))):
        end = heading.index(title) + len(title)
        assert tuple(line[:end].split()[-1] for line in (first, second, third)) == cells
    assert second.endswith("1.31x [1.25, 1.38]")
    assert third.endswith("same config")
    assert "# gain: time of ring/64KiB over this one's, in paired rounds" in found


def test_a_config_that_no_rule_chose_is_marked() -> None:
    found = the_lines(a_result(), replace(a_result(), contender="tuned", has_rule=False))
    assert "tuned* ring/64KiB" in found[-1]
    assert any(line.startswith("# * the table has no rule") for line in found)


def test_utilisation_is_shown_where_the_link_is_known() -> None:
    assert the_lines(replace(a_result(), link_gb_per_s=20.0), links=True)[-1].split()[-3:] == ["52", "%", "0"]
    assert the_lines(a_result(), links=True)[-1].split()[-2:] == ["-", "0"]


@pytest.mark.parametrize(("state", "wrong"), [(TrialState.WRONG_RESULT, "1"), (TrialState.TIMEOUT, "-")])
def test_a_failure_stands_in_place_of_the_time_with_its_message_below(state: TrialState, wrong: str) -> None:
    element = WrongElement(rank=1, index=2, got="3", expected="4") if state is TrialState.WRONG_RESULT else None
    failure = Failure(state=state, message="rank 1 has 3", wrong=element)
    line, message = the_lines(replace(a_result(), time_us=None, failure=failure))[-2:]
    assert line.split()[-4:] == ["failed", "-", "-", wrong]
    assert message == f"  {state.value}: rank 1 has 3"


def test_scaling_compares_what_all_ranks_move_with_the_smallest_rank_count() -> None:
    results = [a_result(4, 125.0), a_result(2, 100.0), replace(a_result(2, 50.0), size_bytes=1 << 10)]
    legend, *found = lines(scaling_view(results), 120)
    assert legend.startswith("# speed-up: ")
    assert [line.split()[-1] for line in found[1:]] == ["1.00", "1.00", "1.60"]
    assert [line.split()[0] for line in found[1:3]] == ["1KiB", "1MiB"]
    assert found[3].split()[:2] == ["ring/64KiB", "4"]
    assert [entry["speed_up"] for entry in bench_document(results)] == [pytest.approx(1.6), 1.0, 1.0]


def test_the_document_names_units_and_says_null_where_nothing_is_known() -> None:
    failed = replace(a_result(), time_us=None, failure=Failure(state=TrialState.CRASHED, message="rank 1 ended"))
    tuned = replace(a_result(), contender="tuned", gain=GAIN, has_rule=True, link_gb_per_s=20.0)
    bad, good = json.loads(json.dumps(bench_document([failed, tuned])))
    assert (bad["state"], bad["median_us"], bad["busbw_gb_per_s"], bad["n_wrong"]) == ("crashed", None, None, None)
    assert (good["state"], good["median_us"], good["low_us"], good["high_us"]) == (
        "ok",
        100.0,
        90.0,
        pytest.approx(110),
    )
    assert (good["gain"], good["gain_low"], good["gain_high"]) == (1.31, 1.25, 1.38)
    assert good["utilisation"] == pytest.approx(10.48576 / 20.0)
