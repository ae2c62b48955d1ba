"""kernels/_native.pyi is what the built module says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.kernels import _native

STUB = Path(__file__).parents[2] / "kernels" / "_native.pyi"


def test_the_stub_is_the_modules() -> None:
    stubgen = pytest.importorskip("nanobind.stubgen", reason="needs nanobind: pip install nanobind")
    generator = stubgen.StubGen(module=_native)
    generator.put(_native)
    remedy = f"python -m nanobind.stubgen -m autotune.kernels._native -o {STUB.relative_to(STUB.parents[1])}"
    assert STUB.read_text(encoding="utf-8") == generator.get(), f"the stub is old: {remedy}"
