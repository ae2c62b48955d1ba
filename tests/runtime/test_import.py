"""What a job pays for ``import autotune``: the standard library, and names that load on first use."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import autotune

HEAVY = {"numpy", "torch", "torch_npu", "sqlalchemy", "alembic", "optuna", "typer", "yaml", "rich", "scipy"}


def loaded_by(code: str, tmp_path: Path) -> set[str]:
    """Top-level modules that a fresh process loads for this code, beyond those it starts with."""
    program = (
        "import sys; before = set(sys.modules)\n"
        f"{code}\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))\n"
    )
    env = {**os.environ, "AUTOTUNE_DATA_DIR": str(tmp_path), "AUTOTUNE_CACHE_DIR": str(tmp_path), "AUTOTUNE_TABLE": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_import_and_select_load_the_standard_library_only(tmp_path: Path) -> None:
    found = loaded_by("import autotune; autotune.select('all_reduce', message_bytes=4 << 20, n_ranks=4)", tmp_path)
    assert found & HEAVY == set()
    assert found - set(sys.stdlib_module_names) == {"autotune"}


def test_import_alone_loads_nothing_of_ours_but_the_names(tmp_path: Path) -> None:
    code = "import autotune; assert not [m for m in sys.modules if m.startswith('autotune.')], sys.modules"
    assert loaded_by(code, tmp_path) - set(sys.stdlib_module_names) == {"autotune"}


def test_the_check_sees_a_heavy_import(tmp_path: Path) -> None:
    """The planted fault: the YAML exporter loads yaml when it renders."""
    code = "from autotune import exchange, table; exchange.EXPORTERS['yaml'].render(table.shipped_table())"
    assert loaded_by(code, tmp_path) & HEAVY == {"yaml"}


def test_public_names_are_listed_before_they_are_loaded(tmp_path: Path) -> None:
    code = "import autotune; assert set(autotune.__all__) <= set(dir(autotune)); assert 'select' not in vars(autotune)"
    assert "autotune" in loaded_by(code, tmp_path)


def test_names_are_those_of_their_homes() -> None:
    from autotune.errors import AutotuneError
    from autotune.runtime.selection import Selection
    from autotune.runtime.selector import select
    from autotune.table import load_table

    assert autotune.select is select
    assert autotune.load_table is load_table
    assert autotune.Selection is Selection
    assert autotune.AutotuneError is AutotuneError


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'autotune' has no attribute 'selekt'"):
        autotune.selekt  # noqa: B018  # the access is the test


def test_the_version_is_the_installed_one() -> None:
    try:
        installed = version("mc2-autotune")
    except PackageNotFoundError:
        installed = "0+unknown"
    assert autotune.__version__ == installed
