from __future__ import annotations

import pytest
from report.made import lines

from autotune.kernels.schedules.registry import ALGORITHMS, cost_figures, names
from autotune.report.algorithms import algorithms_document, algorithms_view
from autotune.types import Collective

ALL = tuple(Collective)


def test_every_algorithm_stands_with_its_summary_and_a_line_for_each_cost() -> None:
    found = lines(algorithms_view(ALL, None), 300)
    for algorithm in ALGORITHMS:
        assert any(line.split(None, 1) == [algorithm.name, algorithm.summary] for line in found)
        assert algorithm.name in found
    ring = found.index("ring")
    assert found[ring + 1].split("  ")[0] == "all_reduce"
    assert [cell.strip() for cell in found[ring + 1].split("  ") if cell] == [
        "all_reduce",
        "2(n - 1)",
        "2(n - 1)/n",
        "any",
    ]


@pytest.mark.parametrize("n_ranks", [1, 2, 6, 33])
def test_figures_are_those_of_the_schedules(n_ranks: int) -> None:
    document = algorithms_document(ALL, n_ranks)
    found = {(cost["collective"], cost["algorithm"]): cost for cost in document["costs"]}
    assert found.keys() == {(c.value, name) for c in Collective for name in names(c, n_ranks)}
    for (collective, name), cost in found.items():
        steps, wire = cost_figures(Collective(collective), name, n_ranks)
        assert (cost["steps"], cost["bytes_on_wire_per_message_byte"]) == (steps, float(wire))


def test_only_the_collectives_that_were_asked_for_are_shown() -> None:
    only = (Collective.ALL_TO_ALL,)
    assert {cost["collective"] for cost in algorithms_document(only, None)["costs"]} == {"all_to_all"}
    assert {a["name"] for a in algorithms_document(only, None)["algorithms"]} == {
        algorithm.name for algorithm in ALGORITHMS if Collective.ALL_TO_ALL in algorithm.collectives
    }
    text = "\n".join(lines(algorithms_view(only, None), 300))
    assert "double_tree" not in text
    assert "all_reduce" not in text.replace("all_reduce:", "")


@pytest.mark.parametrize("n_ranks", [None, 6])
def test_eighty_columns_are_enough(n_ranks: int | None) -> None:
    assert max(map(len, lines(algorithms_view(ALL, n_ranks), 80))) <= 80
