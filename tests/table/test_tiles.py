"""Files of fused products: there and back, what is refused, and from which number of rows on fusing pays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import TableFormatError
from autotune.report.crossover import crossover_document, sentence
from autotune.table.tiles import FusedShape, Fusion, Tiling, crossovers, load_tilings, save_tilings


def shape(m: int, **more: object) -> FusedShape:
    words: dict[str, Any] = {
        "fusion": Fusion.MATMUL_ALL_REDUCE,
        "k": 64,
        "p": 32,
        "dtype": "float32",
        "placement": (1, 1),
    }
    return FusedShape(m=m, **words | more)


def tiling(tiles: int, **more: object) -> Tiling:
    words: dict[str, Any] = {
        "vendor": None,
        "best": "4 tiles",
        "unfused_us": 300.0,
        "collective_us": 200.0,
        "gain": 1.5,
        "gain_low": 1.25,
        "gain_high": 1.75,
    }
    return Tiling(tiles=tiles, **words | more)


FOUND = {
    shape(16): tiling(1, gain=0.75),
    shape(128): tiling(4),
    shape(512): tiling(8),
    shape(16, placement=(2,)): tiling(1),
    shape(32, fusion=Fusion.ALL_GATHER_MATMUL): tiling(1, vendor=(("comm_mode", "aiv"),), best="vendor comm_mode=aiv"),
}


def test_a_file_brings_back_what_was_saved_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "tiles.json"
    save_tilings(FOUND, path)
    assert load_tilings(path) == FOUND
    assert os.stat(path).st_mode & 0o777 == 0o600
    text = path.read_text("utf-8")
    save_tilings(dict(reversed(FOUND.items())), path)
    assert path.read_text("utf-8") == text


def test_where_fusing_starts_to_pay() -> None:
    one, *others = crossovers(FOUND, Fusion.MATMUL_ALL_REDUCE)
    assert (one.rows, one.pays_from) == ((16, 128, 512), 128)
    assert sentence(one) == "Fusing pays from m = 128 on (measured: 16, 128, 512)."
    assert [(other.rows, other.pays_from) for other in others] == [((16,), None)]
    assert sentence(others[0]) == "Fusing does not pay up to m = 16 (measured: 16)."
    (gathered,) = crossovers(FOUND, Fusion.ALL_GATHER_MATMUL)
    assert gathered.tilings[0].fused
    assert sentence(gathered) == "Fusing pays already at m = 32 on (measured: 32)."
    assert len(crossovers(FOUND)) == 3
    # A number of rows between two at which it pays, at which it does not, moves the start behind it.
    (broken,) = crossovers({shape(1): tiling(2), shape(2): tiling(1), shape(3): tiling(2)})
    assert broken.pays_from == 3


def test_hidden_is_what_fusing_saves_of_the_collective() -> None:
    assert tiling(4).hidden == pytest.approx(0.5)
    assert tiling(1, gain=0.75).hidden == pytest.approx(-0.5)
    (first, *_) = crossover_document(crossovers(FOUND, Fusion.MATMUL_ALL_REDUCE))
    assert first["pays_from_m"] == 128
    assert [row["choice"] for row in first["measured"]] == ["unfused", "4 tiles", "4 tiles"]


GOOD = {
    "call": "matmul_all_reduce",
    **{"m": 1, "k": 1, "p": 1, "dtype": "float32", "placement": [2], "tiles": 1, "vendor": None, "best": "2 tiles"},
    **{"unfused_us": 1.0, "collective_us": 1, "gain": 1.0, "gain_low": 0.5, "gain_high": 2.0},
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"a": 1}',
        "[1]",
        "null",
        "[" * 100_000,
        *(
            json.dumps([GOOD | change])
            for change in (
                {"tiles": 0},
                {"tiles": 2, "vendor": {}},
                {"vendor": {"comm_mode": 1}},
                {"vendor": []},
                {"call": "matmul"},
                {"dtype": 5},
                {"m": True},
                {"m": 1.5},
                {"placement": []},
                {"placement": 2},
                {"gain": 0},
                {"gain": None},
                {"more": 1},
            )
        ),
        json.dumps([{name: value for name, value in GOOD.items() if name != "best"}]),
    ],
)
def test_a_damaged_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tiles.json"
    path.write_text(json.dumps([GOOD]), "utf-8")
    assert load_tilings(path)
    path.write_text(text, "utf-8")
    with pytest.raises(TableFormatError, match="holds no numbers of tiles"):
        load_tilings(path)


def test_a_file_that_is_not_there_is_one_clear_error() -> None:
    with pytest.raises(TableFormatError, match=r"tiles\.json holds no numbers of tiles"):
        load_tilings("/nonexistent/tiles.json")
