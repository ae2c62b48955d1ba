"""``run --max-error``: lossy codecs are tried on data, and what they are off by is kept; `explain` knows the budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.session import Here, Shell


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--max-error", "0.1"], ["and none is given", "try: give --data FILE.npy, or --distribution"]),
        (["--max-error", "0.1", "--distribution", "uniform"], ["'uniform' is not one of: normal, laplace"]),
        (["--max-error", "0", "--distribution", "normal"], ["max_error 0.0 is not a relative error"]),
        (["--distribution", "normal"], ["data without an error budget", "try: give --max-error too"]),
        (
            ["--max-error", "1", "--distribution", "normal", "--collective", "broadcast"],
            ["none of the plan's collectives does that", "leave --max-error out"],
        ),
    ],
)
def test_budgets_that_cannot_be_meant(here: Here, words: list[str], says: list[str]) -> None:
    here("run", *words).assert_refused(*says, code=2)


def test_files_that_are_no_data(here: Here, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("1 2 3")
    for path in (tmp_path / "x.npy", tmp_path / "none.npy", tmp_path):
        here("run", "--max-error", "1", "--data", str(path)).assert_refused("cannot be read", "numpy.save", code=2)


def test_a_run_with_a_budget_keeps_what_codecs_were_off_by(shell: Shell, tmp_path: Path) -> None:
    data = tmp_path / "gradients.npy"
    np.save(data, np.random.default_rng(5).normal(0, 1e-4, 5000).astype(np.float32))
    words = ["run", "--exhaustive", "--collective", "all_reduce", "--sizes", "16K", "--ranks", "2", "--json"]
    done = shell(*words, "--max-error", "0.05", "--data", str(data))
    assert done.code == 0, done.err
    with shell.store() as store:
        trials = {(trial.config.algorithm, trial.config.codec): trial for trial in store.trials()}
    lossless, int8, int4 = (trials["ring", codec] for codec in ("none", "int8", "int4"))
    assert lossless.problem.key.max_error == 0.05
    assert lossless.fidelity is None
    assert int8.samples
    assert int8.fidelity is not None
    assert 0.001 < int8.fidelity.error < 0.05
    assert not int4.samples
    assert "above 0.05" in int4.message
    explained = shell("explain", "all_reduce", "16K", "--ranks", "2", "--max-error", "0.05", "--json").document
    assert explained["tuned"]
    assert explained["max_error"] == 0.05
    (seen,) = [
        c for c in explained["candidates"] if (c["config"]["algorithm"], c["config"]["codec"]) == ("ring", "int8")
    ]
    assert seen["state"] == "ok"
    assert not shell("explain", "all_reduce", "16K", "--ranks", "2", "--json").document["tuned"]
