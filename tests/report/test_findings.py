from __future__ import annotations

from report.made import lines

from autotune.report.findings import findings_view, settings_view


def test_a_remedy_stands_on_a_line_of_its_own() -> None:
    rows = [("error", "memory", "too little", "docker run --memory 4g"), ("ok", "load", "0.10", None)]
    assert lines(findings_view(rows)) == [
        "error  memory: too little",
        "       try: docker run --memory 4g",
        "ok     load: 0.10",
    ]


def test_a_setting_shows_its_value_its_meaning_and_its_default() -> None:
    rows = [("AUTOTUNE_CHECK", "1", "0", "compare arguments"), ("RANK", None, "none", "this rank")]
    assert lines(settings_view(rows)) == [
        "AUTOTUNE_CHECK  1",
        "                compare arguments; default: 0",
        "RANK            -",
        "                this rank; default: none",
    ]
