"""What goes wrong between hosts is an error on every rank, in time, that names ranks and hosts."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from ranks.cases import Call
from scenes.scene import Played, Scene, Step

from autotune.types import Collective, DType

Play = Callable[[Scene, Path], Played]

JOIN: Step = {"do": "join"}
SUM: Step = {"do": "all_reduce"}
TIMEOUT_S = 5.0


def call(**changes: object) -> Step:
    words: dict[str, object] = {"collective": Collective.ALL_REDUCE, "algorithm": "ring", "count": 1000}
    return {"do": "calls", "calls": [Call(**(words | changes)).to_json()]}  # type: ignore[arg-type] # words of Call


@pytest.mark.parametrize(
    ("odd", "field"),
    [
        (call(count=1001), "count"),
        (call(algorithm="direct"), "algorithm"),
        (call(dtype=DType.INT32), "dtype"),
        (call(segment_bytes=64), "segment_bytes"),
        (call(codec="int8"), "codec"),
    ],
    ids=["count", "algorithm", "dtype", "segment_bytes", "codec"],
)
def test_calls_that_differ_name_ranks_and_field_on_all_ranks(odd: Step, field: str, play: Play, tmp_path: Path) -> None:
    steps = [JOIN, SUM, call(), SUM]
    scene = Scene(per_host=(2, 1), steps=steps, own={"2": [JOIN, SUM, odd, SUM]}, timeout_s=TIMEOUT_S)
    played = play(scene, tmp_path)
    assert played.codes == [0, 0, 0], played.said
    for step in (2, 3):
        for error in played.errors(step):
            assert f"disagree at call 2 in: {field}" in error, error
            assert "and 2 disagree" in error
    here, beside, _ = (error.partition(" (reported by")[0] for error in played.errors(3))
    assert here == beside  # two hosts may find it at the same moment, each by its own pair of ranks


def test_a_call_that_a_rank_does_not_make_is_a_disagreement_or_named_in_the_time_out(
    play: Play, tmp_path: Path
) -> None:
    steps = [JOIN, SUM, SUM, {"do": "close"}]
    own = {"1": [JOIN, SUM, {"do": "close"}]}
    played = play(Scene(per_host=(1, 1), steps=steps, own=own, timeout_s=TIMEOUT_S), tmp_path)
    assert played.results[0] is not None
    assert "rank 1 on " in played.results[0][2]["error"]
    assert "has closed its communicator" in played.results[0][2]["error"]


@pytest.mark.parametrize("per_host", [(1, 1), (2, 2)], ids=str)
def test_a_killed_rank_is_named_on_all_others(per_host: tuple[int, ...], play: Play, tmp_path: Path) -> None:
    dead = sum(per_host) - 1
    steps = [JOIN, SUM, {"do": "all_reduce", "times": 10**6, "count": 10_000}]
    own = {str(dead): [JOIN, SUM, {"do": "note", "key": "reached"}, {"do": "hang"}]}
    events = [{"key": "reached", "kill": dead}]
    scene = Scene(per_host=per_host, steps=steps, own=own, events=events, timeout_s=30.0)
    played = play(scene, tmp_path)
    assert played.codes == [0] * dead + [-9], played.said
    for rank in range(dead):
        result = played.results[rank]
        assert result is not None
        assert f"rank {dead} on " in result[2]["error"]
        assert "died" in result[2]["error"]
        assert result[2]["seconds"] < 20.0  # seen, not timed out


def test_a_rank_that_hangs_is_named_when_the_time_is_out(play: Play, tmp_path: Path) -> None:
    steps = [JOIN, SUM, SUM]
    own = {"2": [JOIN, SUM, {"do": "note", "key": "reached"}, {"do": "hang"}]}
    scene = Scene(per_host=(2, 1), steps=steps, own=own, timeout_s=2.0, within_s=6.0)
    played = play(scene, tmp_path)
    for rank in (0, 1):
        result = played.results[rank]
        assert result is not None
        host = socket.gethostname()
        assert re.search(rf"no sign of rank \d on {host} \(host \d\) for 2 s", result[2]["error"])
        assert re.search(rf"calls made: .*, rank 2 on {host} \(host 1\) (1|unknown)\)", result[2]["error"])


def test_a_host_that_disappears_is_an_error_on_the_others(play: Play, tmp_path: Path) -> None:
    many: Step = {"do": "all_reduce", "times": 10**6, "count": 10_000, "note": "reached"}
    events = [{"key": "reached", "ip": ["-n", "@1", "link", "set", "eth0", "down"]}]
    scene = Scene(per_host=(1, 1, 1), steps=[JOIN, many], events=events, timeout_s=3.0, within_s=30.0)
    played = play(scene, tmp_path)
    for error in played.errors(1):
        assert "rank" in error, error
        assert " on " in error, error
    assert "rank 1 on" in played.errors(1)[0] + played.errors(1)[2]


def test_ranks_with_different_secrets_do_not_meet(play: Play, tmp_path: Path) -> None:
    scene = Scene(
        per_host=(1, 1, 1),
        steps=[JOIN],
        environ={"AUTOTUNE_SECRET": "the-secret-of-this-run"},
        own_environ={"2": {"AUTOTUNE_SECRET": "another-one-altogether"}},
        timeout_s=TIMEOUT_S,
    )
    played = play(scene, tmp_path)
    first, second, third = played.errors(0)
    assert first == second
    assert first.startswith("rank 2: ")
    assert "does not bear the run's secret" in first
    assert "does not bear the run's secret" in third


def test_a_secret_that_only_some_ranks_have_is_an_error(play: Play, tmp_path: Path) -> None:
    scene = Scene(
        per_host=(1, 1),
        steps=[JOIN],
        own_environ={"0": {"AUTOTUNE_SECRET": "the-secret-of-this-run"}},
        timeout_s=2.0,
    )
    first, second = play(scene, tmp_path).errors(0)
    assert "AUTOTUNE_SECRET is set on rank 0, and not on this rank" in second
    assert "rank(s) 1 did not join" in first


def test_rubbish_on_the_ports_changes_nothing(play: Play, carrier: str, tmp_path: Path) -> None:
    many: Step = {"do": "all_reduce", "times": 200, "count": 5000}
    steps = [JOIN, many, {"do": "rubbish"}, many, {"do": "close"}]
    played = play(Scene(per_host=(2, 1), steps=steps), tmp_path)
    assert played.codes == [0, 0, 0], played.said
    for step in range(len(steps)):
        assert set(played.errors(step)) == {"none"}, played.errors(step)
    assert played.results[0] is not None
    # Sockets do not listen any more when all are connected.
    assert (played.results[0][2]["ports"] > 0) == (carrier == "ucx")


def test_rubbish_while_ranks_meet_changes_nothing(play: Play, tmp_path: Path) -> None:
    steps = [JOIN, SUM, {"do": "close"}]
    own = {"1": [{"do": "rubbish", "at_least": 1}, *steps]}  # while rank 0, of its host, listens and waits for it
    played = play(Scene(per_host=(2, 1), steps=steps, own=own), tmp_path)
    assert played.codes == [0, 0, 0], played.said
    assert played.results[1] is not None
    assert played.results[1][0]["ports"] > 0
    for result in played.results:
        assert result is not None
        assert not any("error" in step for step in result), result


@pytest.mark.parametrize("carrier", ["ucx"], indirect=True)  # of rank 0; rank 1 has the other
def test_ranks_that_would_use_different_networks_do_not_meet(play: Play, tmp_path: Path) -> None:
    scene = Scene(
        per_host=(1, 1), steps=[JOIN], own_environ={"1": {"AUTOTUNE_NETWORK": "sockets"}}, timeout_s=TIMEOUT_S
    )
    for error in play(scene, tmp_path).errors(0):
        assert error == f"ranks 0 and 1 (on {socket.gethostname()}) differ in AUTOTUNE_NETWORK: ucx and sockets"


def test_a_rank_that_does_not_come_is_named_on_all_others(play: Play, tmp_path: Path) -> None:
    scene = Scene(per_host=(1, 1, 1), steps=[JOIN], own={"1": []}, timeout_s=2.0)
    played = play(scene, tmp_path)
    for rank in (0, 2):
        result = played.results[rank]
        assert result is not None
        assert "rank(s) 1 did not join the group within 2 s" in result[0]["error"]


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ([{"do": "join", "n_ranks": 4}], "rank 0 says the group has 3 ranks, rank 2 on {host} says 4"),
        ([{"do": "join", "max_error": 0.1}], "ranks 0 and 2 (on {host}) differ in max_error: None and 0.1"),
    ],
    ids=["number of ranks", "error budget"],
)
def test_a_rank_that_differs_is_named_on_all_ranks(own: list[Step], words: str, play: Play, tmp_path: Path) -> None:
    scene = Scene(per_host=(1, 1, 1), steps=[JOIN], own={"2": own}, timeout_s=TIMEOUT_S)
    errors = play(scene, tmp_path).errors(0)
    assert set(errors) == {words.format(host=socket.gethostname())}


def test_an_interface_that_is_not_there_is_an_error_on_all_ranks(play: Play, tmp_path: Path) -> None:
    scene = Scene(
        per_host=(1, 1),
        steps=[JOIN],
        own_environ={"1": {"AUTOTUNE_NET_DEVICES": "eth7"}},
        timeout_s=TIMEOUT_S,
    )
    played = play(scene, tmp_path)
    for error in played.errors(0):
        assert f"rank 1 on {socket.gethostname()}: AUTOTUNE_NET_DEVICES names 'eth7'" in error
    assert played.results[0] is not None
    assert "set it to one or more of" in played.results[0][0]["remedy"]
    assert "eth0" in played.results[0][0]["remedy"]


def test_a_host_without_a_network_is_an_error_on_all_ranks(play: Play, tmp_path: Path) -> None:
    scene = Scene(
        per_host=(1, 1, 1),
        steps=[JOIN],
        prepare=[["-n", "@2", "link", "set", "eth0", "down"]],
        timeout_s=TIMEOUT_S,
    )
    errors = play(scene, tmp_path).errors(0)
    assert all("rank" in error and error != "none" for error in errors), errors
    assert any("rank 2" in error for error in errors), errors


def test_symmetric_memory_is_refused_and_the_group_stays_usable(play: Play, tmp_path: Path) -> None:
    played = play(Scene(per_host=(1, 1), steps=[JOIN, {"do": "allocate"}, SUM]), tmp_path)
    for error in played.errors(1):
        assert "symmetric memory does not reach over several hosts" in error
    assert set(played.errors(2)) == {"none"}


def test_whole_arguments_are_compared_where_asked_for(play: Play, tmp_path: Path) -> None:
    steps = [JOIN, SUM, call(collective=Collective.BROADCAST, algorithm="flat", root=0)]
    own = {"1": [JOIN, SUM, call(collective=Collective.BROADCAST, algorithm="flat", root=1)]}
    scene = Scene(per_host=(1, 1), steps=steps, own=own, environ={"AUTOTUNE_CHECK": "1"}, timeout_s=TIMEOUT_S)
    for error in play(scene, tmp_path).errors(2):
        assert "disagree at call 2 in: root" in error
