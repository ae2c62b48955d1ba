"""One tuned machine with rude names for all tests of pages; they only read it."""

from __future__ import annotations

import pytest
from page.scene import RUDE, Scene, make_scene

from autotune.report.page.contents import Contents
from autotune.report.page.render import report_page
from autotune.serve.machines import report_contents


@pytest.fixture(scope="session", autouse=True)
def _extras() -> None:
    for name in ("jinja2", "matplotlib"):
        pytest.importorskip(name, reason=f"needs the extra report: {name} is not installed")


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene") / "trials.sqlite", name=RUDE, command=f"autotune run {RUDE}")


@pytest.fixture(scope="session")
def contents(scene: Scene) -> Contents:
    with scene.store() as store:
        return report_contents(scene.table, f"from {RUDE}", store, scene.fingerprint)


@pytest.fixture(scope="session")
def page(contents: Contents) -> str:
    return report_page(contents)
