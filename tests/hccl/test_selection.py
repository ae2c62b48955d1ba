"""HCCL's own choice: the published branches, the 512 KiB step of A3's all_gather, and what it is predicted to lose."""

from __future__ import annotations

import json

import pytest
from cli.session import Here

from autotune.errors import UsageError
from autotune.hccl import Soc, facts
from autotune.hccl.selection import Choice, Shape, by_alpha_beta, own_choice
from autotune.simulate import simulate_hccl, subject
from autotune.types import Collective

KIB, MIB = 1 << 10, 1 << 20


def branch(soc: Soc, collective: Collective, message_bytes: int, servers: int, devices: int, mode: str) -> Choice:
    rules = facts(soc).selection
    assert rules is not None
    shape = Shape(collective=collective, message_bytes=message_bytes, servers=servers, devices=devices)
    found = own_choice(rules, shape, mode, {"A3": "AI_CPU"}.get(soc.value, "HOST"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("soc", "collective", "message_bytes", "servers", "devices", "mode", "executor"),
    [
        (Soc.A2, Collective.ALL_REDUCE, 256 * KIB, 1, 8, "HOST", "MeshSmallCount"),
        (Soc.A2, Collective.ALL_REDUCE, 256 * KIB + 4, 1, 8, "HOST", "MeshOpbaseLoop"),
        (Soc.A2, Collective.ALL_REDUCE, 16 * MIB - 4, 1, 8, "AIV", "AivSmallCount"),
        (Soc.A2, Collective.ALL_REDUCE, 16 * MIB, 1, 8, "AIV", "Aiv"),
        (Soc.A2, Collective.ALL_REDUCE, 32 * MIB, 4, 8, "HOST", "Pipeline"),
        (Soc.A2, Collective.ALL_REDUCE, 32 * MIB - 4, 4, 8, "HOST", "by the alpha-beta model"),
        (Soc.A2, Collective.ALL_REDUCE, 8 * 190 * KIB, 4, 8, "AIV", "SmallCountAivRdma"),
        (Soc.A2, Collective.ALL_REDUCE, 8 * 190 * KIB, 3, 8, "AIV", "by the alpha-beta model"),
        (Soc.A2, Collective.ALL_GATHER, 32 * 32 * KIB, 4, 8, "HOST", "Pipeline"),
        (Soc.A2, Collective.ALL_GATHER, 4 * 32 * KIB, 4, 1, "HOST", "by the alpha-beta model"),
        (Soc.A3, Collective.ALL_REDUCE, 512 * KIB * 16, 1, 16, "AI_CPU", "MeshSmallCount"),
        (Soc.A3, Collective.ALL_REDUCE, 512 * KIB * 16 + 4, 1, 16, "AI_CPU", "FastDoubleRing"),
        (Soc.A910, Collective.ALL_REDUCE, MIB, 1, 8, "HOST", "Doubling"),
        (Soc.A910, Collective.ALL_REDUCE, MIB + 4, 1, 8, "HOST", "Ring"),
        (Soc.A310P, Collective.ALL_REDUCE, MIB, 1, 2, "HOST", "Doubling"),
        (Soc.A310P, Collective.ALL_REDUCE, MIB, 1, 4, "HOST", "Ring"),
    ],
)
def test_published_branches(
    soc: Soc, collective: Collective, message_bytes: int, servers: int, devices: int, mode: str, executor: str
) -> None:
    assert branch(soc, collective, message_bytes, servers, devices, mode).executor == executor


@pytest.mark.parametrize(("servers", "word"), [(2, "ring"), (3, "ring"), (4, "NHR"), (16, "NHR")])
def test_between_servers_a2_takes_the_least_of_its_own_model(servers: int, word: str) -> None:
    rules = facts(Soc.A2).selection
    assert rules is not None
    shape = Shape(collective=Collective.ALL_REDUCE, message_bytes=MIB, servers=servers, devices=8)
    assert by_alpha_beta(rules, shape) == word


@pytest.mark.parametrize(
    ("soc", "servers", "word"), [(Soc.A910, 3, "ring"), (Soc.A910, 9, "H-D_R"), (Soc.A3, 2, "NHR")]
)
def test_between_servers_others_go_by_their_number(soc: Soc, servers: int, word: str) -> None:
    assert branch(soc, Collective.ALL_GATHER, 1 << 30, servers, 8, "HOST").level1 == word


def test_the_step_of_a3s_all_gather_stands_at_512_kib_a_rank() -> None:
    """Measured in public: 465 KB take 30.4 us and 596 KB 155.3 us on 8 dies under AIV (a step of five)."""
    below, above = 8 * 512 * KIB, 8 * 512 * KIB + 8
    assert branch(Soc.A3, Collective.ALL_GATHER, below, 1, 8, "AIV").engine == "AIV"
    assert branch(Soc.A3, Collective.ALL_GATHER, above, 1, 8, "AIV").engine == "AI_CPU"
    a3 = subject("atlas-800t-a3", None, staging_bytes=MIB)
    before, after = simulate_hccl(a3, Collective.ALL_GATHER, [below, above], [8], mode="AIV")
    assert 4.0 < after.default_us / before.default_us < 10.0
    assert before.loss == 0.0
    assert after.loss > 1.0
    assert dict(after.best[0].knobs)["pieces"] == 2


def test_the_command_says_where_the_default_loses_and_what_to_measure(here: Here) -> None:
    words = ("simulate", "--backend", "hccl", "--machine", "atlas-800t-a2", "--hosts", "4")
    done = here(*words, "--collective", "all_reduce", "--sizes", "4MiB,64MiB")
    assert done.code == 0
    assert "run on hardware: no" in done.out
    assert "torchrun --nnodes 4 --nproc-per-node 8" in done.out
    assert "--no-python autotune run --backend hccl --collective all_reduce --sizes 4MiB --ranks 32" in done.out
    small, large = json.loads(here(*words, "--collective", "all_reduce", "--sizes", "4MiB,64MiB", "--json").out)[
        "predictions"
    ]
    assert (small["executor"], large["executor"]) == ("by the alpha-beta model", "Pipeline")
    assert small["best"]["algorithm"] == "pipeline"
    assert small["loss"] > 0.2 > large["loss"]


def test_without_a_collective_all_are_simulated_whose_choice_is_published(here: Here) -> None:
    done = here("simulate", "--backend", "hccl", "--machine", "atlas-800t-a2", "--hosts", "4", "--json")
    assert done.code == 0
    shown = list(dict.fromkeys(one["collective"] for one in done.document["predictions"]))
    assert shown == ["all_reduce", "all_gather", "reduce_scatter"]
    worst = max(done.document["predictions"], key=lambda one: one["loss"])
    assert f"--collective {worst['collective']} " in done.document["advice"][1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--machine", "atlas-950"), "HCCL's own choice on 950 is not published"),
        (("--machine", "atlas-950", "--collective", "all_reduce"), "is not published"),
        (("--machine", "dgx-h100", "--collective", "all_reduce"), "no NPUs of a known family"),
        (("--machine", "atlas-800t-a2", "--collective", "broadcast"), "is not published"),
        (("--machine", "atlas-800t-a2", "--collective", "all_reduce", "--mode", "CCU"), "not one of A2's"),
        (("--machine", "atlas-800t-a2", "--collective", "all_reduce", "--output", "x"), "--output is not for"),
    ],
)  # fmt: skip
def test_what_is_refused(words: tuple[str, ...], complaint: str, here: Here) -> None:
    done = here("simulate", "--backend", "hccl", *words)
    assert done.code == 2
    assert complaint in done.err


def test_a_rank_count_without_a_branch_is_refused() -> None:
    a910 = subject("atlas-800-910a", None, staging_bytes=MIB)
    with pytest.raises(UsageError, match="is not published"):
        simulate_hccl(a910, Collective.ALL_TO_ALL, [MIB], [8])
