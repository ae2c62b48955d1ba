"""The benchmarks of PyTorch jobs run from end to end, on little; what they measure is the machine's business."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "pytorch"


def printed(*words: str) -> str:
    """What a benchmark prints; skips where it needs hosts that cannot be made."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / words[0]), *words[1:]],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    if re.match(r"error: .*(namespace|iproute2|unshare|ip netns)", ended.stderr):
        pytest.skip(f"needs network namespaces: {ended.stderr.splitlines()[0]}")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_training_over_hosts() -> None:
    words = ("--rate", "0", "--rounds", "2", "--steps", "1", "--loss-steps", "6", "--codecs", "int8")
    text = printed("ddp_hosts.py", *words)
    assert re.search(
        r"10\.5 million parameters, 2 hosts x 2 ranks .* table: shipped defaults, topo: hierarchical", text
    )
    found = {name: float(off) for name, off in re.findall(r"^ *(\S+): .* \(([-+.\d]+) % of gloo's\)$", text, re.M)}
    assert list(found) == ["gloo", "mc2", "none", "int8"]
    assert all(abs(off) < 2 for off in found.values())


@pytest.mark.slow
def test_fused_products_over_hosts() -> None:
    text = printed("fused_hosts.py", "--rounds", "9", "--shapes", "32x64x64", "--backend", "mc2")
    assert re.search(r"^ +32x64x64( +[\d.]+){4} +(2|4|8|16) ", text, re.M)


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_price_of_the_check() -> None:
    text = printed("check_cost.py", "--ranks", "2", "--rounds", "5")
    assert len(re.findall(r"^2 ranks, \d+ bytes: .* us more$", text, re.M)) == 3
