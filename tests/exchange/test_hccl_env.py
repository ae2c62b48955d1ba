"""HCCL_ALGO: of all single choices the one that loses least, with the loss that trials show, whatever the weights."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest
from exchange.library_tables import config, key, table_of
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError, UsageError
from autotune.exchange import EXPORTERS, Exported, Request, Soc
from autotune.table import TuningTable
from autotune.types import Collective, Config, Evidence, Phase, Problem, Sample, SampleKind, Trial, TrialState

WORDS = ("ring", "NHR", "NB")
ALL_REDUCE = key(Collective.ALL_REDUCE, 16, "hccl", placement=(8, 8))


def trial(size: int, what: Config, time_us: float, number: int) -> Trial:
    sample = Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=0, position=0, batch_calls=1, time_us=time_us)
    problem = Problem(key=ALL_REDUCE, message_bytes=size)
    return Trial(trial_id=number, session_id=1, problem=problem, config=what, state=TrialState.OK, samples=(sample,))


def measured(times: Mapping[int, Mapping[Config, float]]) -> tuple[TuningTable, tuple[Trial, ...]]:
    """A table that chooses the fastest at each size, and the trials."""
    counter = itertools.count(1)
    trials = tuple(trial(size, c, t, next(counter)) for size, by in times.items() for c, t in by.items())
    best = {size: min(by, key=lambda c: (by[c], str(c))) for size, by in times.items()}
    table = table_of({ALL_REDUCE: best | {max(times) * 2: config("ring")}}, "hccl")
    rules = []
    for rule in table.rules[ALL_REDUCE]:
        us = times[rule.from_bytes][rule.config]
        plain = replace(rule, evidence=Evidence.IMPORTED, gain=None, gain_low=None, gain_high=None)
        rules.append(replace(plain, median_us=us, low_us=us, high_us=us))
    return replace(table, rules={ALL_REDUCE: tuple(rules)}), trials


def exported(
    table: TuningTable,
    trials: tuple[Trial, ...],
    *,
    weights: Mapping[int, float] | None = None,
    soc: Soc | None = None,
) -> Exported:
    asked = Request(evidence=frozenset({Evidence.IMPORTED}), trials=trials, weights=weights or {}, soc=soc)
    return EXPORTERS["hccl-env"].render(table, asked)


def algo(text: str) -> dict[str, str]:
    """HCCL_ALGO as HCCL takes it apart: operators by /, levels by ;, and level 0 is NA."""
    (command, assignment) = shlex.split(text.splitlines()[0])
    assert command == "export"
    name, _, value = assignment.partition("=")
    assert name == "HCCL_ALGO"
    found = {}
    for part in value.split("/"):
        operator, _, levels = part.partition("=")
        level0, level1 = levels.split(";")
        assert level0 == "level0:NA"
        found[operator] = level1.removeprefix("level1:")
    return found


TIMES = st.lists(st.lists(st.floats(1.0, 1000.0), min_size=3, max_size=3), min_size=1, max_size=5).map(
    lambda rows: {1024 << i: {config(w): t for w, t in zip(WORDS, row, strict=True)} for i, row in enumerate(rows)}
)


@given(times=TIMES, weights=st.lists(st.floats(0.5, 9.0), min_size=5, max_size=5), weighted=st.booleans())
def test_the_choice_is_the_one_that_brute_force_finds(
    times: dict[int, dict[Config, float]], weights: list[float], weighted: bool
) -> None:
    table, trials = measured(times)
    w = dict(zip(times, weights, strict=False)) if weighted else dict.fromkeys(times, 1.0)

    def loss(word: str) -> float:
        ratios = [(w[size], by[config(word)] / min(by.values()) - 1.0) for size, by in times.items()]
        return sum(weight * ratio for weight, ratio in ratios) / sum(weight for weight, _ in ratios)

    found = exported(table, trials, weights=w if weighted else {})
    chosen = algo(found.text)["allreduce"]
    assert loss(chosen) <= min(map(loss, WORDS)) + 1e-9
    assert any(f"{chosen} for all sizes loses {100 * loss(chosen):.1f} %" in note for note in found.notes)


def test_the_articles_lose_a_sixth_with_ring_alone() -> None:
    times = {
        1_000_000: {config("ring"): 12.0, config("tree"): 8.0},
        16_000_000: {config("ring"): 45.0, config("tree"): 52.0},
        256_000_000: {config("ring"): 320.0, config("tree"): 480.0},
    }
    notes = exported(*measured(times)).notes
    assert any("ring for all sizes loses 16.7 %" in note and "at worst 50.0 %" in note for note in notes)
    assert any("'tree' is none of its allreduce algorithms" in note for note in notes)
    weighted = exported(*measured(times), weights={1_000_000: 1.0}).notes
    assert any("loses 50.0 %" in note for note in weighted)


def test_sizes_where_the_choice_was_not_measured_are_said() -> None:
    times = {1024: {config("ring"): 2.0, config("NHR"): 1.0}, 4096: {config("NB"): 2.0}}
    notes = exported(*measured(times)).notes
    assert any("measured in 1 of 2 sizes, and nothing is known of the rest" in note for note in notes)


def test_variables_of_the_process_are_chosen_together() -> None:
    large = {"HCCL_BUFFSIZE": 400}
    times = {
        1024: {config("ring"): 2.0, config("NHR", **large): 1.0},
        4096: {config("ring"): 5.0, config("NHR", **large): 4.0},
    }
    text = exported(*measured(times)).text
    assert text.splitlines()[1] == "export HCCL_BUFFSIZE=400"
    assert algo(text) == {"allreduce": "NHR"}


def test_an_operator_for_which_hccl_s_own_choice_loses_least_is_not_named() -> None:
    own = config("auto")
    times = {1024: {own: 1.0, config("NHR"): 3.0}, 4096: {own: 5.0, config("NHR"): 4.0}}
    with pytest.raises(AutotuneError, match="HCCL's own choice loses least"):
        exported(*measured(times))
    buffered = config("auto", HCCL_BUFFSIZE=400)
    times = {1024: {own: 2.0, buffered: 1.0}, 4096: {own: 2.0, buffered: 1.0}}
    assert exported(*measured(times)).text == "export HCCL_BUFFSIZE=400\n"


def test_a_value_that_a_shell_would_run_is_refused() -> None:
    times = {1024: {config("ring", HCCL_BUFFSIZE="1;reboot"): 1.0}}
    with pytest.raises(AutotuneError, match="no value of a variable"):
        exported(*measured(times))


@pytest.mark.parametrize(("soc", "word"), [(Soc.A2, "ring"), (Soc.A950, "NHR"), (Soc.A3, "ring")])
def test_only_what_the_chip_has_is_chosen(soc: Soc, word: str) -> None:
    times = {1024: {config("ring"): 1.0, config("NHR"): 3.0}}
    assert algo(exported(*measured(times), soc=soc).text) == {"allreduce": word}


def test_310p_has_none() -> None:
    with pytest.raises(AutotuneError, match="310P"):
        exported(*measured({1024: {config("ring"): 1.0}}), soc=Soc.A310P)


def test_weights_of_sizes_that_the_table_does_not_have_are_refused() -> None:
    with pytest.raises(UsageError, match="no weight is of a size"):
        exported(*measured({1024: {config("ring"): 1.0}}), weights={1 << 40: 1.0})


def test_one_server_is_told_that_the_variable_does_nothing_there() -> None:
    inside = table_of({key(Collective.ALL_REDUCE, 8, "hccl"): {1024: config("ring"), 4096: config("ring")}}, "hccl")
    assert any("decides nothing" in note for note in EXPORTERS["hccl-env"].render(inside, Request()).notes)
