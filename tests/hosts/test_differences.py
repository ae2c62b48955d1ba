"""A rank that brings another table, or another version of the package, is named on all ranks of all hosts."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scenes.scene import Played, Scene
from table_strategies import ALL_REDUCE_4, kept

from autotune import __version__
from autotune.table import save_table, shipped_table
from autotune.types import Config

Play = Callable[[Scene, Path], Played]
TIMEOUT_S = 10.0


def errors(play: Play, folder: Path, **environ: str) -> set[str]:
    """What three ranks on three hosts say, of which the last has these variables."""
    steps = [{"do": "join"}]
    scene = Scene(per_host=(1, 1, 1), steps=steps, own_environ={"2": environ}, timeout_s=TIMEOUT_S)
    return set(play(scene, folder).errors(0))


def test_another_table(play: Play, tmp_path: Path) -> None:
    rule = kept(8, 1 << 20, Config(algorithm="ring", segment_bytes=4096))
    other = replace(shipped_table(), rules={ALL_REDUCE_4: (rule,)})
    save_table(other, tmp_path / "other.json")
    (error,) = errors(play, tmp_path, AUTOTUNE_TABLE=str(tmp_path / "other.json"))
    assert error.startswith(f"ranks 0 and 2 (on {socket.gethostname()}) differ in table digest: ")
    assert other.digest in error


def test_another_version(play: Play, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import autotune\nautotune.__version__ = '99.0'\n")
    here = Path(__file__).resolve()
    paths = [own, here.parents[1], here.parents[2] / "benchmarks", os.environ.get("PYTHONPATH", "")]
    (error,) = errors(play, tmp_path, PYTHONPATH=os.pathsep.join(str(path) for path in paths if str(path)))
    host = socket.gethostname()
    assert error == f"ranks 0 and 2 (on {host}) differ in autotune version: {__version__} and 99.0"
