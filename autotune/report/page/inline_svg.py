"""An SVG file made fit for the inside of a page: no style attributes, no clashing ids, colours by class. Pure.

A page that allows no inline style (its Content-Security-Policy) would drop matplotlib's; and a colour that is written
into a line cannot follow a dark background. So styles become attributes, and colours that stand for something become
classes, which the page's own style sheet paints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_PAINTS = ("fill", "stroke")
_DROPPED = ("metadata", "style")
# What matplotlib sets and the page decides: the font, and settings for writing outside of SVG.
_IDLE = ("font-family", "font-style", "font-variant", "font-stretch", "text-rendering")
# Characters that XML has no way to write; names of hosts and devices may hold them.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")


def inline_svg(
    text: str, *, prefix: str, label: str, colours: Mapping[str, str], parts: Mapping[str, tuple[str, str]]
) -> str:
    """The picture as an element for HTML.

    Args:
        text: of an SVG file, as matplotlib writes it.
        prefix: stands before every id that is kept, so that pictures on one page do not take each other's.
        label: what the picture shows, for those who do not see it.
        colours: ``#rrggbb`` to a word: ``fill-WORD`` and ``stroke-WORD`` become the classes of what has the colour.
        parts: id of a group to (part, title): the group gets ``data-part`` in place of its id, and a title.
    """
    root = ElementTree.fromstring(_NOT_XML.sub("\ufffd", text))
    for parent in list(root.iter()):
        for child in [child for child in parent if _local(child) in _DROPPED]:
            parent.remove(child)
    wanted = {found for element in root.iter() for value in element.attrib.values() for found in _referred(value)}
    for element in list(root.iter()):
        _restyle(element, colours)
        if element.get("id") in parts:
            part, words = parts[element.attrib.pop("id")]
            element.set("data-part", part)
            title = ElementTree.Element("title")
            title.text = words
            element.insert(0, title)
        if element.get("id", "") in wanted:
            wanted.remove(element.attrib["id"])  # matplotlib defines a mark again where it is used again
        else:
            element.attrib.pop("id", None)
        _rename(element, prefix)
        element.tag = _local(element)
    root.attrib.pop("version", None)
    root.set("role", "img")
    root.set("aria-label", label)
    return ElementTree.tostring(root, encoding="unicode")


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _restyle(element: ElementTree.Element, colours: Mapping[str, str]) -> None:
    pairs = (part.partition(":") for part in element.attrib.pop("style", "").split(";") if part.strip())
    for name, value in [(name.strip(), value.strip()) for name, _, value in pairs]:
        if name == "font":  # "10px 'DejaVu Sans'", perhaps with a weight before it
            size = re.search(r"(?:(bold|[1-9]00)\s+)?([0-9.]+px)", value)
            if size is not None:
                element.set("font-size", size[2])
                if size[1]:
                    element.set("font-weight", size[1])
        elif name not in _IDLE:
            element.set(name, value)
    words = [f"{paint}-{colours[value]}" for paint in _PAINTS if (value := element.get(paint, "")) in colours]
    for paint in _PAINTS:
        if element.get(paint, "") in colours:
            del element.attrib[paint]
    if words:
        element.set("class", " ".join(words))


def _referred(value: str) -> list[str]:
    """The ids that an attribute refers to."""
    return [value[1:]] if value.startswith("#") else _REFERENCE.findall(value)


def _rename(element: ElementTree.Element, prefix: str) -> None:
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.set(name, prefix + value)
        elif name in (_XLINK_HREF, "href") and value.startswith("#"):
            del element.attrib[name]
            element.set("href", f"#{prefix}{value[1:]}")
        elif "url(#" in value:
            element.set(name, _REFERENCE.sub(lambda found: f"url(#{prefix}{found[1]})", value))
