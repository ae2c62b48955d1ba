"""``autotune explain CALL --tiles FILE``: from how many rows on fusing pays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.session import Here

from autotune.table.tiles import FusedShape, Fusion, Tiling, save_tilings


@pytest.fixture
def tiles(tmp_path: Path) -> str:
    found = {
        FusedShape(fusion=Fusion.MATMUL_ALL_REDUCE, m=m, k=1536, p=1024, dtype="float32", placement=(1, 1)): Tiling(
            tiles=count,
            vendor=None,
            best="4 tiles",
            unfused_us=1000.0 * m,
            collective_us=500.0 * m,
            gain=gain,
            gain_low=gain - 0.05,
            gain_high=gain + 0.05,
        )
        for m, count, gain in ((16, 1, 0.8), (256, 4, 1.25), (1024, 4, 1.5))
    }
    path = tmp_path / "tiles.json"
    save_tilings(found, path)
    return str(path)


def test_explain_says_at_which_size_fusing_starts_to_pay(here: Here, tiles: str) -> None:
    told = here("explain", "matmul_all_reduce", "--tiles", tiles)
    assert told.code == 0, told.err
    assert "matmul_all_reduce, float32, 1 + 1 ranks on 2 hosts; x (m, 1536) @ w (1536, 1024)" in told.out
    assert "Fusing pays from m = 256 on (measured: 16, 256, 1024)." in told.out
    assert "unfused" in told.out
    (found,) = json.loads(here("explain", "matmul_all_reduce", "--tiles", tiles, "--json").out)
    assert found["pays_from_m"] == 256
    assert [row["choice"] for row in found["measured"]] == ["unfused", "4 tiles", "4 tiles"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["explain", "all_reduce", "--tiles", "FILE"], "'all_reduce' is no fused product; those are matmul_all_reduce"),
        (["explain", "all_gather_matmul", "--tiles", "FILE"], "has nothing of all_gather_matmul"),
        (["explain", "matmul_all_reduce", "--tiles", "/nonexistent"], "holds no numbers of tiles"),
        (["explain", "all_reduce"], "for one size and number of ranks"),
        (["explain", "all_reduce", "4MiB"], "for one size and number of ranks"),
    ],
)
def test_what_cannot_be_explained(here: Here, tiles: str, words: list[str], says: str) -> None:
    told = here(*(tiles if word == "FILE" else word for word in words))
    assert told.code == (1 if "/nonexistent" in words else 2)
    assert says in told.err
    assert "try: " in told.err
