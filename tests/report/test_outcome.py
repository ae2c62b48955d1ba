from __future__ import annotations

import json
from dataclasses import replace

from report.made import DIRECT, RING, a_failure, a_key, a_problem, a_verdict, lines

from autotune.report.outcome import Outcome, outcome_document, outcome_view
from autotune.types import Collective, Memory

SMALL, LARGE = a_problem(1024), a_problem(65536)
DONE = Outcome(
    fingerprint="0123456789abcdef",
    session_id=7,
    resumed=False,
    interrupted=False,
    elapsed_s=75.0,
    database="/data/trials.sqlite",
    table="/data/tables/0123456789abcdef/v000003.json",
    table_digest="d" * 64,
    sizes=(1024, 65536),
    keys=(a_key(),),
    verdicts={SMALL: a_verdict(SMALL, RING, gain=1.0), LARGE: a_verdict(LARGE, DIRECT, gain=1.4)},
    failed=(),
    not_measured=(),
    failures=(),
)


def shown(outcome: Outcome) -> list[str]:
    return lines(outcome_view(outcome, 100), 300)


def test_the_end_says_where_the_table_is_and_what_to_do_next() -> None:
    trials, table, next_step = shown(DONE)[-3:]
    assert trials.split(None, 1) == ["trials", "/data/trials.sqlite, session 7, 1:15"]
    assert table.split(None, 1) == ["table", f"{DONE.table} (2 cells decided, 1 better than the default)"]
    assert next_step.endswith("autotune explain all_reduce 64KiB --ranks 2 --dtype float32")


def test_the_next_step_names_what_is_not_as_usual() -> None:
    key = replace(a_key(2, Collective.BROADCAST), memory=Memory.SYMMETRIC)
    problem = a_problem(1024, key)
    found = shown(replace(DONE, keys=(key,), verdicts={problem: a_verdict(problem, RING, gain=1.0)}))
    assert found[-1].endswith("autotune explain broadcast 1KiB --ranks 2 --memory symmetric")
    missing = shown(replace(DONE, not_measured=(problem,)))
    assert "  broadcast, symmetric memory, 2 ranks  1KiB" in missing


def test_a_run_that_went_on_says_so() -> None:
    assert "session 7, continued" in "\n".join(shown(replace(DONE, resumed=True)))


def test_cells_that_were_not_measured_are_listed_by_kind() -> None:
    missing = (a_problem(64, a_key(4)), a_problem(256, a_key(4)), LARGE)
    found = shown(replace(DONE, not_measured=missing))
    start = found.index("not measured: 3 cells")
    assert found[start + 1 : start + 3] == [
        "  all_reduce float32 sum, 4 ranks  64B, 256B",
        "  all_reduce float32 sum, 2 ranks  64KiB",
    ]
    assert "the same command goes on" in found[-1]


def test_failures_are_counted_and_shown_with_their_messages() -> None:
    failures = tuple(a_failure(number, SMALL, DIRECT) for number in range(25))
    found = shown(replace(DONE, failures=failures))
    assert "25 failed trials: 25 wrong_result" in found
    assert sum("rank 1 has 3 at element 7, expected 4" in line for line in found) == 20
    assert "and 5 more; --json lists all" in found


def test_nothing_decided_shows_no_map_and_points_to_doctor() -> None:
    found = shown(replace(DONE, verdicts={}, table=None, failed=(SMALL, LARGE)))
    assert not any("best config" in line for line in found)
    assert found[0] == "no decision possible, since the default gave no right answer: 2 cells"
    assert not any(line.startswith("table") for line in found)
    assert "autotune doctor" in found[-1]


def test_the_document_holds_every_figure_with_its_unit() -> None:
    failures = (a_failure(3, SMALL, DIRECT),)
    document = json.loads(json.dumps(outcome_document(replace(DONE, not_measured=(a_problem(64),), failures=failures))))
    kept, won = document["cells"]
    assert (kept["is_default"], kept["gain"]) == (True, None)
    assert won["config"] == {"algorithm": "direct", "segment_bytes": 16384, "codec": "none", "knobs": {}}
    assert 1.39 < won["gain_low"] <= won["gain"] <= won["gain_high"] < 1.41
    assert won["low_us"] <= won["median_us"] <= won["high_us"]
    assert won["message_bytes"] == 65536
    assert won["trial_ids"] == [2, 1]
    assert [cell["message_bytes"] for cell in document["cells_not_measured"]] == [64]
    assert document["failures"][0]["state"] == "wrong_result"
    assert document["failures"][0]["message"] == failures[0].message
