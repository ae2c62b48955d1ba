"""``autotune advise``: whole texts for known models and machines, workloads that run takes, and what it refuses.

UPDATE_GOLDEN=1 rewrites the texts in tests/golden/advise.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.session import Here

from autotune.models import Phase, Split, Step, calls_of, model_shape
from autotune.plan.workload import load_workload
from autotune.types import DType

GOLDEN = Path(__file__).parents[1] / "golden" / "advise"
QWEN = ("--model", "qwen-72b", "--tensor-parallel", "8", "--batch", "8", "--topology", "atlas-800t-a2")
COMMANDS = {
    "decode": (*QWEN, "--sequence", "4096"),
    "train-sequence-parallel": (*QWEN, "--phase", "train", "--sequence-parallel"),
    "cache-that-does-not-fit": (*QWEN, "--sequence", "65536"),
    "experts-and-stages": (
        *("--model", "deepseek-v3", "--tensor-parallel", "8", "--expert-parallel", "32", "--pipeline-parallel", "4"),
        *("--batch", "128", "--topology", "atlas-800t-a2"),
    ),
    "bytes-only": ("--model", "llama-3.1-8b", "--tensor-parallel", "4", "--phase", "prefill"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_whole_texts(name: str, here: Here) -> None:
    done = here("advise", *COMMANDS[name])
    assert (done.code, done.err) == (0, "")
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(done.out, "utf-8")
    assert done.out == path.read_text("utf-8"), "UPDATE_GOLDEN=1 pytest tests/cli/test_advise.py writes it again"


def test_json_says_the_same(here: Here) -> None:
    document = here("advise", *QWEN, "--json").document
    calls = calls_of(model_shape("qwen-72b"), Split(tensor=8), Step(phase=Phase.DECODE, batch=8))
    assert [one["message_bytes"] for one in document["calls"]] == [call.message_bytes for call in calls]
    assert document["step_us"] == pytest.approx(
        sum(one["time_us"] * one["calls_per_step"] for one in document["calls"])
    )
    assert {one["source"] for one in document["calls"]} == {"predicted"}


def test_its_workload_is_what_run_reads(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "step.yaml"
    done = here("advise", *QWEN, "--workload", str(path))
    assert done.code == 0
    assert str(path) in done.err
    calls = {(c.collective.value, c.message_bytes): c for c in load_workload(path).calls}
    both = calls["all_reduce", 8 * 8192 * 2]
    assert (both.n_ranks, both.dtype, both.calls_per_step) == (8, DType.BFLOAT16, 161.0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--model", "qwen-73b"), "model 'qwen-73b' is not known"),
        (("--model", "qwen-72b", "--tensor-parallel", "7"), "64 heads cannot be shared by 7"),
        (("--model", "qwen-72b", "--phase", "sleep"), "phase 'sleep'"),
        (("--model", "qwen-72b", "--hosts", "2"), "--hosts without --topology"),
        (("--model", "qwen-72b", "--topology", "nowhere"), "--topology 'nowhere' is neither a machine nor a file"),
        (("--model", "qwen-72b", "--device-memory", "64GB"), "64GB"),
        (("--model", "qwen-72b", "--workload", "x.yaml"), "a step of this split calls no collective"),
    ],
)
def test_words_that_cannot_be_meant(words: tuple[str, ...], complaint: str, here: Here) -> None:
    done = here("advise", *words)
    assert done.code == 2
    assert complaint in done.err
    assert "Traceback" not in done.err
