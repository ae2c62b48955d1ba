"""The search benchmark: recordings as a backend, what judges a choice, and the test's error on recorded noise."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search import record
from search.bound import bound
from search.judging import judged
from search.recorded import RACE_ROUNDS, RecordedBackend, confirm_rounds, exhaustive_s
from search.recording import HALVES, MACHINE, RECORDINGS, Recording, load
from search.sweeps import SWEEPS, Sweep, default_among, default_of, read_list

from autotune.measure import ALPHA, Standing, Timing, sequential_ratio, standing
from autotune.types import Config, Phase, Problem, Sample, SampleKind

BEST = default_of(next(iter(read_list(SWEEPS[0]))))
OTHER, LUCKY = (Config(algorithm=name, segment_bytes=64 << 10) for name in ("ring", "tree"))
NAMES = [sweep.name for sweep in SWEEPS]
PATHS = sorted(RECORDINGS.glob("*/*.npz"))
IDS = [f"{path.parent.name}-{path.stem}" for path in PATHS]


def recording(columns: int = 48) -> Recording:
    """One cell: `BEST` takes 100 us, `OTHER` 110; `LUCKY` takes 60 in the even rounds of each half, and 200 in others.

    A sample costs 1 ms, the first of a config 10.
    """
    problem = next(iter(read_list(SWEEPS[0])))
    times = np.full((3, columns), 100.0, np.float32)
    times[1] = 110.0
    halves = np.arange(columns) // 2 % 2
    times[2] = np.where(halves == 0, 60.0, 200.0)
    costs = np.full((3, columns), 0.001, np.float32)
    costs[:, 0] = 0.01
    return Recording(
        name="planted",
        backend="native",
        n_hosts=1,
        topology="",
        facts={},
        cells={problem: (BEST, OTHER, LUCKY)},
        time_us={problem: times},
        cost_s={problem: costs},
    )


def cell(given: Recording) -> Problem:
    return next(iter(given.cells))


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_every_recording_is_of_the_listed_configs_and_whole(path: Path) -> None:
    found, sweep = load(path), SWEEPS[NAMES.index(path.stem)]
    assert found.cells == read_list(sweep)
    assert found.n_rounds == HALVES * sweep.rounds or path.parent.name != MACHINE
    assert confirm_rounds(found) >= 15
    assert found.n_hosts == sweep.n_hosts


def test_every_sweep_was_recorded() -> None:
    recorded = {path.parent.name: {p.stem for p in path.parent.glob("*.npz")} for path in PATHS}
    assert recorded == {"epyc": set(NAMES), MACHINE: set(NAMES) - {"testbed"}}


@pytest.mark.parametrize("sweep", SWEEPS, ids=NAMES)
def test_every_cell_has_the_shipped_default_under_some_name(sweep: Sweep) -> None:
    for problem, configs in read_list(sweep).items():
        found = default_among(problem, configs)
        assert found in configs
        assert found.algorithm == default_of(problem).algorithm
        with pytest.raises(ValueError, match="is not in the list"):
            default_among(problem, [config for config in configs if config.algorithm != found.algorithm])


def test_a_search_sees_one_half_of_the_rounds_and_race_and_confirm_rounds_are_others() -> None:
    given = recording()
    times = np.broadcast_to(np.arange(1.0, 49.0, dtype=np.float32), (3, 48)).copy()
    given.time_us[cell(given)][:] = times  # type: ignore[index] # a mapping to read, of arrays that can be written
    for half in (0, 1):
        backend = RecordedBackend(given, half=half)
        seen: list[float] = []
        for phase, rounds in ((0, RACE_ROUNDS), (1, confirm_rounds(given))):
            for number in range(rounds):
                (outcome,) = backend.measure_round(
                    cell(given), [BEST], kind=SampleKind.FRESH, batch=4 * number + 2 * phase
                )
                assert isinstance(outcome, Timing)
                seen.append(outcome.time_us)
        assert seen == [column + 1 for column in range(half, 48, 2)]


def test_the_first_sample_of_a_config_costs_more_whenever_it_comes() -> None:
    for half in (0, 1):
        backend = RecordedBackend(recording(), half=half)
        problem = cell(recording())
        for number in (3, 0, 5):
            backend.measure_round(problem, [BEST], kind=SampleKind.FRESH, batch=4 * number)
        assert backend.clock() == pytest.approx(0.012)
        assert backend.spent_s[problem] == pytest.approx(0.012)
        assert exhaustive_s(recording(), problem, half) == pytest.approx(3 * (0.01 + 8 * 0.001))


@pytest.mark.parametrize("seen", [0, 1])
def test_an_oracle_is_not_credited_with_the_luck_that_chose_it(seen: int) -> None:
    """`LUCKY` is the oracle of the even rounds, and loses in the odd ones, where it is compared."""
    found = judged(recording(), cell(recording()), BEST, spent_s=1.0, seen=seen)
    assert found.oracle == LUCKY
    assert -0.5 <= found.regret < 0.0
    worse = judged(recording(), cell(recording()), OTHER, spent_s=1.0, seen=seen)
    assert (1 + worse.regret) / (1 + found.regret) == pytest.approx(1.1, rel=0.01)


def test_a_race_that_is_never_wrong_loses_nothing_where_nothing_varies() -> None:
    given = recording()
    problem = cell(given)
    fast = replace(given, time_us={problem: np.array([[100.0], [70.0], [90.0]], np.float32).repeat(48, axis=1)})
    assert bound(fast, 2) == "planted: mean 0.00%, worst cell 0.0%"
    luck = np.random.default_rng(0).uniform(0.3, 3.0, (3, 48)).astype(np.float32)
    assert not bound(replace(fast, time_us={problem: fast.time_us[problem] * luck}), 2).startswith(
        "planted: mean 0.00%"
    )


def test_rounds_are_reordered_as_a_whole() -> None:
    given = load(RECORDINGS / "epyc" / "native_all_reduce.npz")
    other = given.reordered(1)
    assert given.reordered(0) is given
    for problem, times in given.time_us.items():
        columns = [tuple(column) for column in times.T]
        assert sorted(map(str, columns)) == sorted(str(tuple(column)) for column in other.time_us[problem].T)
        order = [columns.index(tuple(column)) for column in other.time_us[problem].T]
        assert order != list(range(given.n_rounds))


def samples(times_us: np.ndarray) -> list[Sample]:
    return [
        Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=r, position=0, batch_calls=1, time_us=float(time_us))
        for r, time_us in enumerate(times_us)
    ]


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_a_config_rarely_beats_itself_in_recorded_noise(path: Path) -> None:
    """A config's neighbouring rounds as if two configs had run in them, looked at after 9 and after 15 pairs.

    The bound is three standard errors above the stated rate.
    """
    luck = random.Random(0)
    false = runs = 0
    for times in load(path).time_us.values():
        for own in times[~np.isnan(times).any(axis=1)]:
            pairs = own.reshape(-1, 2)
            flipped = np.array([luck.random() < 0.5 for _ in pairs])
            before, after = np.where(flipped, pairs.T[::-1], pairs.T)
            runs += 1
            for rounds in (9, 15):
                gain = sequential_ratio(samples(before[:rounds]), samples(after[:rounds]))
                assert gain is not None
                if standing(gain) is not Standing.OPEN:
                    false += standing(gain) is Standing.FASTER
                    break
    assert false / runs <= ALPHA + 3 * math.sqrt(ALPHA / runs)


def test_a_recording_goes_on_where_its_time_was_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(SWEEPS[0], ranks=(2,), sizes=(1024,), rounds=1)
    monkeypatch.setattr(record, "read_list", lambda sweep: sweep.cells())
    part = record.record(small, tmp_path, within_s=0.0)
    assert load(part).n_rounds == 1
    begun = load(part).time_us[next(iter(small.cells()))]
    whole = record.record(small, tmp_path, within_s=60.0)
    assert [path.name for path in tmp_path.iterdir()] == [whole.name] != [part.name]
    found = load(whole)
    times = found.time_us[next(iter(found.cells))]
    assert times.shape[1] == found.n_rounds == 2
    assert (times[:, :1] == begun).all()
    assert not np.isnan(times).any()
