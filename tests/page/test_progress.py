"""Best so far against seconds, on a race whose story is known; and the curves' points."""

from __future__ import annotations

import pytest
from page.scene import Scene
from report.made import DIRECT, RING, TREE, a_problem, samples

from autotune.report.explanation import Proof, explain_choice
from autotune.report.page.cells import Cell, Column, Kind, kinds_of
from autotune.report.page.contents import Contents
from autotune.report.page.curves import algorithms, panel, sizes
from autotune.report.page.progress import progress
from autotune.table import shipped_table
from autotune.types import Phase, Trial, TrialState


def trial(number: int, config: object, times: list[float]) -> Trial:
    return Trial(
        trial_id=number,
        session_id=1,
        problem=a_problem(1024),
        config=config,  # type: ignore[arg-type] # a Config; kept short
        state=TrialState.OK,
        samples=samples(times, Phase.RACE),
    )


def kind_of(trials: list[Trial]) -> Kind:
    problem = trials[0].problem
    explained = explain_choice(
        problem,
        config=trials[-1].config,
        reason="",
        rule=None,
        proof=Proof(trials=tuple(trials), note=""),
        table=shipped_table(),
        reference=RING,
    )
    cell = Cell(key=problem.key, message_bytes=problem.message_bytes, rule=None, proof=explained)
    return Kind(key=problem.key, columns=(Column(key=problem.key, cells=(cell,)),))


def test_the_leader_changes_when_more_is_known() -> None:
    """Until round 3 RING looks best, by luck; it is twice as slow. The seconds are those of all calls."""
    lucky, steady = [10.0, 10.0, 10.0, *[40.0] * 6], [20.0] * 9
    found = progress([kind_of([trial(1, RING, lucky), trial(2, DIRECT, steady)])])
    assert found is not None
    steps = found.searches[0].steps
    assert [round(ratio, 3) for _, ratio in steps] == [2.0] * 5 + [1.0] * 4
    assert [round(time_s * 1e6) for time_s, _ in steps[:4]] == [30, 60, 90, 150]
    assert found.searches[0].total_s == pytest.approx((sum(lucky) + sum(steady)) * 1e-6)
    assert found.median[0] == pytest.approx(2.0)
    assert found.median[-1] == pytest.approx(1.0)
    reached = found.reached_s(1.02)
    assert reached is not None
    assert steps[4][0] < reached <= steps[5][0] * 1.05


def test_a_config_that_left_early_is_no_leader_for_its_few_good_rounds() -> None:
    found = progress([kind_of([trial(1, TREE, [1.0]), trial(2, RING, [5.0] * 9), trial(3, DIRECT, [4.0] * 9)])])
    assert found is not None
    assert found.searches[0].steps[-1][1] == pytest.approx(1.0)


def test_without_trials_there_is_no_progress(contents: Contents) -> None:
    assert progress(kinds_of(contents.table, (), contents.reference)) is None


def test_every_algorithm_has_a_curve_and_the_chosen_config_stands_for_its_own(contents: Contents, scene: Scene) -> None:
    kinds = kinds_of(contents.table, contents.trials, contents.reference)
    panels = [found for kind in kinds for column in kind.columns if (found := panel(column)) is not None]
    assert len(panels) == len(scene.table.rules)
    names = algorithms(panels)
    assert {"ring", "direct", "bruck", "recursive_halving_doubling"} <= set(names)
    assert "double_tree" not in names, "it only failed"
    assert sizes(panels) == (1024, 1 << 20)
    for each in panels:
        chosen = [point for curve in each.curves for point in curve.points if point.is_chosen]
        assert [point.message_bytes for point in chosen] in ([1024, 65536, 1 << 20], [65536, 1024, 1 << 20]) or len(
            chosen
        ) == 3
        for curve in each.curves:
            assert [p.message_bytes for p in curve.points] == sorted({p.message_bytes for p in curve.points})
            for point in curve.points:
                assert (point.low_us is None) == (point.n_rounds < 6)


def test_one_size_is_no_curve() -> None:
    column = kind_of([trial(1, RING, [1.0] * 9)]).columns[0]
    assert panel(column) is None
