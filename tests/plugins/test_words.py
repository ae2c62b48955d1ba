"""The words that the plugins are compiled with are those of words.json."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from plugins.words_header import words_header

HEADER = Path(__file__).parents[2] / "autotune" / "plugins" / "csrc" / "words.h"


def test_the_header_is_the_one_that_words_json_makes() -> None:
    if not HEADER.exists():
        pytest.skip("needs the sources of the plugins beside the tests")
    if os.environ.get("UPDATE_GOLDEN") == "1":
        HEADER.write_text(words_header(), encoding="utf-8")
    assert HEADER.read_text(encoding="utf-8") == words_header()
