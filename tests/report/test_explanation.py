from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report.made import DIRECT, RING, ROUNDS, TREE, a_failure, a_problem, a_trial, lines
from table_strategies import defaults, sample_table

from autotune.report.explanation import Explanation, Proof, explain_choice, rule_for
from autotune.report.explanation_view import explanation_document, explanation_view
from autotune.table import Rule, TuningTable
from autotune.types import Config, Evidence, Fidelity, Trial

PROBLEM = a_problem(1 << 20)
DEFAULT = defaults().lookup(PROBLEM.key, PROBLEM.message_bytes)


def a_table(config: Config) -> TuningTable:
    rule = Rule(
        from_bytes=1 << 19,
        to_bytes=1 << 21,
        config=config,
        evidence=Evidence.MEASURED,
        is_default=config == DEFAULT,
        n_rounds=ROUNDS,
        median_us=10.0,
        low_us=9.0,
        high_us=11.0,
        gain=None if config == DEFAULT else 1.3,
        gain_low=None if config == DEFAULT else 1.2,
        gain_high=None if config == DEFAULT else 1.4,
        ring_gain=1.5,
        trial_ids=(1, 2),
    )
    return replace(sample_table(), rules={PROBLEM.key: (rule,)})


def explained(config: Config, trials: list[Trial]) -> Explanation:
    table = a_table(config)
    proof = Proof(trials=tuple(trials), note="trials are in /data/trials.sqlite")
    rule = rule_for(table, PROBLEM)
    return explain_choice(
        PROBLEM, config=config, reason="measured", rule=rule, proof=proof, table=table, reference=RING
    )


def the_trials(winner_us: float) -> list[Trial]:
    return [
        a_trial(1, PROBLEM, DEFAULT, 13.0, confirm=ROUNDS),
        a_trial(2, PROBLEM, TREE, winner_us, confirm=ROUNDS),
        a_trial(3, PROBLEM, RING, 15.0, confirm=ROUNDS),
        a_trial(4, PROBLEM, DIRECT, 20.0, race=3),
        a_failure(5, PROBLEM, Config(algorithm="nhr", segment_bytes=65536)),
    ]


def test_rules_hold_their_first_size_and_not_the_first_after_them() -> None:
    table = a_table(TREE)
    found = [rule_for(table, a_problem(size)) for size in ((1 << 19) - 1, 1 << 19, (1 << 21) - 1, 1 << 21)]
    assert [rule is None for rule in found] == [True, False, False, True]
    assert rule_for(table, a_problem(1 << 20, replace(PROBLEM.key, n_ranks=3, placement=(3,)))) is None


def test_a_winner_that_replaced_the_default_is_explained() -> None:
    found = explained(TREE, the_trials(10.0))
    assert [candidate.trial.trial_id for candidate in found.candidates] == [2, 1, 3, 4, 5]
    assert [candidate.roles for candidate in found.candidates] == [
        ("chosen", "winner"),
        ("default",),
        ("ring",),
        (),
        (),
    ]
    assert f"{DEFAULT} was replaced by {TREE}, which was 1.30x [" in found.why_default
    assert "as fast in 9 paired rounds, p = 0.002" in found.why_default  # the test's first look; later rounds are spare


def test_hosts_that_stand_last_are_said_of_ranks_on_three_hosts_or_more() -> None:
    words = "hostb (about 1/4 of the usual rate)"
    pair = replace(PROBLEM.key, n_ranks=4, placement=(2, 2))
    placed = replace(PROBLEM.key, n_ranks=4, placement=(1, 1, 1, 1))
    for key, last in ((PROBLEM.key, None), (pair, None), (placed, words)):
        problem = replace(PROBLEM, key=key)
        table = a_table(TREE)
        table = replace(table, environment={**table.environment, "slow_hosts": words})
        found = explain_choice(
            problem, config=TREE, reason="measured", rule=None, proof=None, table=table, reference=RING
        )
        assert found.last_hosts == last
        assert explanation_document(found)["last_hosts"] == last
        assert any(words in line for line in lines(explanation_view(found))) == (last is not None)


def test_a_winner_that_was_not_better_enough_is_explained() -> None:
    found = explained(DEFAULT, the_trials(12.9))
    assert f"{DEFAULT} stays: {TREE} won the race, but then was 1.01x" in found.why_default
    assert sample_table().test in found.why_default


def test_a_default_that_won_is_explained() -> None:
    assert explained(DEFAULT, the_trials(14.0)).why_default == f"{DEFAULT} won the race itself"


def test_runners_up_are_compared_in_the_rounds_that_both_ran() -> None:
    of_trial = {candidate.trial.trial_id: candidate for candidate in explained(TREE, the_trials(10.0)).candidates}
    default, dropped, failed = of_trial[1], of_trial[4], of_trial[5]
    assert default.slower is not None
    assert default.slower.median == pytest.approx(1.3, rel=0.01)
    assert default.slower.n_rounds == ROUNDS
    assert (default.n_race, default.n_confirm, default.n_steady) == (ROUNDS, ROUNDS, 3)
    assert dropped.slower is not None
    assert (dropped.slower.n_rounds, dropped.slower.low) == (3, None)
    assert (failed.slower, failed.time_us) == (None, None)


def test_the_text_shows_medians_intervals_samples_and_trial_ids() -> None:
    explanation = explained(TREE, the_trials(10.0))
    chosen = explanation.candidates[0]
    found = lines(explanation_view(explanation), 300)
    assert found[0].split(None, 1) == ["call", "all_reduce float32 sum 1MiB, 2 ranks"]
    rule = next(line for line in found if line.startswith("rule"))
    assert "sizes 512KiB to 2097151B, measured at 1MiB: 10 us [9, 11] in 12 rounds, 1.50x over ring/64KiB" in rule
    assert rule.split()[-3:-1] == ["steady", f"{chosen.steady_us:.4g}"]
    row = next(line for line in found if line.lstrip().startswith("2 "))
    assert chosen.time_us is not None
    assert row.split()[:3] == ["2", str(TREE), f"{chosen.time_us.median:.4g}"]
    assert row.split()[-3:] == ["12+12+3", "chosen,", "winner"]
    assert any("wrong_result: rank 1 has 3 at element 7, expected 4" in line for line in found)
    assert found[-1] == "trials are in /data/trials.sqlite"


def test_a_rule_without_its_trials_says_where_they_were_sought() -> None:
    table = a_table(TREE)
    proof = Proof(note="there is no database /data/trials.sqlite")
    found = explain_choice(
        PROBLEM,
        config=TREE,
        reason="measured",
        rule=rule_for(table, PROBLEM),
        proof=proof,
        table=table,
        reference=RING,
    )
    assert found.measured_bytes is None
    assert lines(explanation_view(found), 300)[-1] == (
        "no trials: there is no database /data/trials.sqlite; name theirs with --db"
    )


def test_a_call_without_a_rule_has_no_rule_in_its_document() -> None:
    found = explain_choice(
        PROBLEM, config=DEFAULT, reason="default", rule=None, proof=None, table=a_table(TREE), reference=RING
    )
    document = explanation_document(found)
    assert (document["tuned"], document["rule"], document["candidates"]) == (False, None, [])


def test_the_document_holds_what_the_text_says() -> None:
    document = json.loads(json.dumps(explanation_document(explained(TREE, the_trials(10.0)))))
    assert document["tuned"] is True
    assert document["rule"]["trial_ids"] == [1, 2]
    assert document["measured_message_bytes"] == 1 << 20
    first = document["candidates"][0]
    assert (first["trial_id"], first["roles"]) == (2, ["chosen", "winner"])
    assert (first["n_race_samples"], first["n_confirm_samples"], first["n_steady_samples"]) == (12, 12, 3)
    assert first["low_us"] <= first["median_us"] <= first["high_us"]
    assert document["candidates"][-1]["state"] == "wrong_result"


def test_a_lossy_choice_says_its_bound_and_what_was_measured() -> None:
    coded = Config(algorithm="ring", segment_bytes=65536, codec="int8")
    problem = replace(PROBLEM, key=replace(PROBLEM.key, max_error=0.05))
    trial = replace(a_trial(2, problem, coded, 9.0, confirm=ROUNDS), fidelity=Fidelity(error=0.0071, density=0.984))
    explanation = explain_choice(
        problem,
        config=coded,
        reason="measured",
        rule=None,
        proof=Proof(trials=(a_trial(1, problem, DEFAULT, 13.0, confirm=ROUNDS), trial), note=""),
        table=a_table(TREE),
        reference=RING,
    )
    text = " ".join(" ".join(lines(explanation_view(explanation))).split())
    assert "in 2 encodings; on the data 0.0071 of the result's norm, at a density of 0.984" in text
    error = explanation_document(explanation)["error"]
    assert (error["encodings"], error["measured"], error["density"]) == (2, 0.0071, 0.984)
    assert explanation_document(explained(TREE, the_trials(10.0)))["error"] is None
    without = replace(explanation, candidates=())
    assert explanation_document(without)["error"] == {**error, "measured": None, "density": None}


def test_the_rule_of_the_largest_budget_within_the_calls_is_explained() -> None:
    table = a_table(TREE)
    (rule,) = table.rules[PROBLEM.key]
    coded = Config(algorithm="ring", segment_bytes=65536, codec="int8")
    lossy = replace(PROBLEM.key, max_error=0.01)
    table = replace(table, rules={**table.rules, lossy: (replace(rule, config=coded),)})
    for budget, wanted in ((None, TREE), (0.001, TREE), (0.01, coded), (0.1, coded)):
        found = rule_for(table, replace(PROBLEM, key=replace(PROBLEM.key, max_error=budget)))
        assert found is not None
        assert found.config == wanted
    asked = replace(PROBLEM, key=lossy)
    assert rule_for(table, asked, TREE) == rule
