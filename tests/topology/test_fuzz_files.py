"""Damaged files on the whole way of ``probe --from``: recognised, read and built, or one error; never anything else.

The files are those of all recorded machines, whole hosts and loose outputs alike, and topologies as ``probe --json``
prints them. What single parsers make of damaged texts, and that none loses a device, is tested beside them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from autotune.errors import AutotuneError
from autotune.topology.cluster import build
from autotune.topology.document import from_json, to_json
from autotune.topology.graph import Topology
from autotune.topology.machines import machine
from autotune.topology.recordings import load
from autotune.topology.render import tree

MACHINES = Path(__file__).parents[1] / "golden" / "machines"
RECORDED = sorted(path for path in MACHINES.glob("*/recording*/**/*") if path.is_file())
RECORDED += sorted(MACHINES.glob("*/recording.json"))
DOCUMENTS = {name: to_json(machine(name, n_hosts=1)) for name in ("atlas-800t-a3", "dgx-a100", "two-socket-host")}
TEXTS = {str(path): path.read_text("utf-8") for path in RECORDED} | DOCUMENTS
PIECES = (
    "",
    "\0",
    "\r",
    "\n",
    "\x1b[31m",
    "é",
    "-1",
    "0",
    "9" * 30,
    '"',
    "{",
    "]",
    "null",
    "|",
    "X",
    "\ufeff",
    " " * 999,
)


def built_of(name: str, text: str) -> Topology | None:
    """What ``probe --from`` makes of one file; None for the error that it may end in."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hosta" / Path(name).name
        file.parent.mkdir()
        file.write_text(text, "utf-8")
        try:
            return build(load([file]))
        except AutotuneError as err:
            said = err
    assert said.message
    assert said.remedy
    return None


def test_undamaged_files_of_whole_hosts_are_built() -> None:
    assert len(RECORDED) > 40
    assert all(built_of(name, TEXTS[name]) is not None for name in TEXTS if name.endswith("recording.json"))
    assert all(built_of(name, text) == from_json(text) for name, text in DOCUMENTS.items())


@settings(max_examples=300)
@given(data=st.data(), name=st.sampled_from(sorted(TEXTS)))
def test_a_damaged_file_is_an_error_or_a_topology(data: st.DataObject, name: str) -> None:
    text = TEXTS[name]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.sampled_from((0, 1, 2, 9, 200, len(text))))
        text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + cut :]
    topology = built_of(name, text)
    assert topology is None or tree(topology).endswith("\n")


@settings(max_examples=100)
@given(data=st.binary(max_size=300), name=st.sampled_from(("x", "hccn_tool -i 0 -ip -g.txt", "recording.json")))
def test_any_bytes_are_an_error_or_a_topology(data: bytes, name: str) -> None:
    built_of(name, data.decode("utf-8", "replace"))


ODD = st.sampled_from([None, True, -1, 1e300, "", "host0", "host9", [], {}, "NaN", "9" * 30])


def _changed(data: st.DataObject, value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value with one place in it replaced, doubled or taken away."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 9)):
        name = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 9)) == 0:
            return {key: each for key, each in value.items() if key != name}
        return value | {name: _changed(data, value[name])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 9)):
        index = data.draw(st.integers(0, len(value) - 1))
        how = data.draw(st.integers(0, 9))
        if how < 2:
            return [*value[:index], *value[index + how :], *value[index : index + how]]
        return [*value[:index], _changed(data, value[index]), *value[index + 1 :]]
    return data.draw(ODD)


@settings(max_examples=200)
@given(data=st.data(), name=st.sampled_from(sorted(DOCUMENTS)))
def test_a_changed_document_is_an_error_or_comes_back_as_it_is(data: st.DataObject, name: str) -> None:
    document = json.loads(DOCUMENTS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        document = _changed(data, document)
    text = json.dumps(document)
    topology = built_of(f"{name}.json", text)
    if topology is not None:
        again = to_json(topology)
        assert from_json(again) == topology
        assert isinstance(tree(topology), str)
