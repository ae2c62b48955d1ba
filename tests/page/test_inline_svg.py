"""Pictures inside a page: no style that its policy drops, no ids that clash, colours by class."""

from __future__ import annotations

import io
import re

from autotune.report.page.inline_svg import inline_svg

PLAIN = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="10pt" viewBox="0 0 10 10">
<metadata>made by</metadata><defs><style type="text/css">*{stroke-linejoin: round}</style>
<clipPath id="clip"><path d="M 0 0"/></clipPath></defs>
<g id="curve"><path id="m1" d="M 0 0" style="fill: none; stroke: #010101; stroke-width: 0.8"/>
<use xlink:href="#m1" clip-path="url(#clip)" style="fill: #123456"/></g>
<text style="font: bold 10px 'DejaVu Sans', sans-serif; text-anchor: middle">a &lt; b</text>
</svg>"""


def inlined(text: str = PLAIN) -> str:
    return inline_svg(
        text, prefix="p-", label='a "label"', colours={"#010101": "ink"}, parts={"curve": ("7", "<ring>")}
    )


def test_styles_become_attributes_and_known_colours_classes() -> None:
    found = inlined()
    assert "style" not in found
    assert 'class="stroke-ink"' in found
    assert 'fill="none"' in found
    assert 'fill="#123456"' in found
    assert 'stroke-width="0.8"' in found
    assert 'font-size="10px"' in found
    assert 'font-weight="bold"' in found
    assert "DejaVu" not in found
    assert 'text-anchor="middle"' in found


def test_ids_are_prefixed_with_all_that_refers_to_them() -> None:
    found = inlined()
    assert set(re.findall(r'\bid="([^"]*)"', found)) == {"p-clip", "p-m1"}
    assert 'href="#p-m1"' in found
    assert 'clip-path="url(#p-clip)"' in found
    assert "xlink" not in found


def test_parts_and_the_whole_say_what_they_show() -> None:
    found = inlined()
    assert '<g data-part="7"><title>&lt;ring&gt;</title>' in found
    assert 'role="img" aria-label="a &quot;label&quot;"' in found
    assert "made by" not in found


def test_characters_that_no_picture_can_hold_are_replaced() -> None:
    found = inlined(PLAIN.replace("a &lt; b", "a\x1b[31m\x00b"))
    assert "a\ufffd[31m\ufffdb" in found


def test_what_matplotlib_writes_has_no_style_left() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([1, 2], [3, 4], marker="o", label="line")
    axes.fill_between([1, 2], [1, 2], [3, 4], alpha=0.5)
    axes.legend()
    axes.set(xscale="log", xlabel="x")
    text = io.StringIO()
    figure.savefig(text, format="svg")
    found = inlined(text.getvalue())
    assert "style=" not in found
    assert "<style" not in found
    assert found.startswith("<svg ")
