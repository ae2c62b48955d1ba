"""The parser of relation matrices: real traps one by one, then random topologies rendered in each format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import accelerator_texts as texts
import hypothesis.strategies as st
import pytest
from hypothesis import given

from autotune.errors import ProbeError
from autotune.topology.links import LinkKind, PciePath
from autotune.topology.probes.pasted import lines_of
from autotune.topology.probes.relation_matrix import Relation, RelationMatrix, links_of, near_node, read_matrix

COMMAND = "npu-smi info -t topo"
PAIRS = "        NPU0  NPU1  CPU Affinity\nNPU0    X     HCCS  0-7\nNPU1    HCCS  X     8-15\n"


def read(text: str) -> RelationMatrix:
    matrix = read_matrix(COMMAND, lines_of(text))
    assert matrix is not None
    return matrix


def refused(text: str) -> str:
    with pytest.raises(ProbeError) as caught:
        read_matrix(COMMAND, lines_of(text))
    assert caught.value.remedy
    return caught.value.message


def kinds(matrix: RelationMatrix) -> dict[tuple[str, str], str]:
    return {pair: (relation.path or relation.kind).name for pair, relation in matrix.relations.items()}


HCCS = {("NPU0", "NPU1"): "HCCS", ("NPU1", "NPU0"): "HCCS"}


@pytest.mark.parametrize(
    "text",
    [
        PAIRS,
        PAIRS.lstrip(),  # the header lost its indent
        PAIRS.replace("        NPU0", "\t   NPU0"),
        PAIRS.replace("\n", "\r\n"),
        "\ufeff" + PAIRS,
        "\n\n".join(PAIRS.splitlines()),  # a blank line after every line
        "\x1b[4mNPU0\x1b[0m \x1b[4mNPU1\x1b[0m  CPU Affinity\n" + PAIRS.split("\n", 1)[1],
        "\n".join(f"    {line}" for line in PAIRS.splitlines()),  # rows indented
        "root@hosta:~# npu-smi info -t topo\n" + PAIRS + texts.NPU_LEGEND + "root@hosta:~#",
        PAIRS.replace("  ", "\u00a0 "),  # copied from a page
        "\n".join(reversed(PAIRS.splitlines())),
    ],
)
def test_reads_what_terminals_mails_and_pages_make_of_it(text: str) -> None:
    matrix = read(text)
    assert kinds(matrix) == HCCS
    assert matrix.cpus == {"NPU0": frozenset(range(8)), "NPU1": frozenset(range(8, 16))}
    assert matrix.unseen == matrix.contradictions == ()


def test_glued_labels_are_named_with_line_and_column() -> None:
    message = refused("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIXNODE\nGPU1\tPIX\t X \tSYS\nGPU2\tNODE\tSYS\t X \n")
    assert "line 2" in message
    message = refused("\tGPU0\tGPU1\nGPU0\t X \tPIXNODE\nGPU1\tPIX\t X \n")
    assert message == (
        f"{COMMAND}, line 2, column 10: got 'PIXNODE', expected one of X, SIO, HCCS, HCCS_SW, UB, NV1 (any number), "
        "PIX, PSB, PXB, PHB, NODE, SYS, SOC, NA"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PAIRS.replace("HCCS  0-7", "HCCS\n0-7"), "line 3, column 1: got '0-7'"),  # a row that was wrapped
        (PAIRS.replace("X     8", "8"), "line 3, column 15: got '8-15', expected X"),
        (
            PAIRS.replace("NPU1  CPU", "NPU1\nCPU"),
            "line 3, column 1: got '2 cells, 1 beside them'",
        ),  # the header was wrapped
        (PAIRS + PAIRS, "line 4, column 9: got 'NPU0', expected one header line"),
        (PAIRS + PAIRS.splitlines()[1], "line 4, column 1: got 'NPU0', expected each row once"),
        (PAIRS.replace("0-7\n", "0-7"), "line 2, column 1: got '2 cells, 4 beside them'"),  # a line break was lost
        (PAIRS.replace("Affinity\n", "Affinity"), "line 1: the header line, which names the columns, is not there"),
        (PAIRS.replace("NPU1    HCCS", "NPU7    HCCS"), "got 'NPU7', expected a device that has a column"),
        (PAIRS.replace("NPU0  NPU1", "NPU0  NPU0"), "expected each device once"),
        (PAIRS.replace("X     HCCS", "HCCS  X"), "got 'HCCS', expected X"),
        (PAIRS.replace("X     HCCS", "X     X"), "got 'X', expected how NPU0 and NPU1 are joined"),
        (PAIRS.replace("0-7", "0-x"), "line 2, column 21: got '0-x', expected CPU Affinity such as 0-3,8"),
        (PAIRS.replace("HCCS", "hccs"), "got 'hccs'"),
        (PAIRS.replace("HCCS", "NV0"), "got 'NV0'"),
        (PAIRS.replace("HCCS", "HC\0CS"), "got 'HC\\x00CS'"),
        (PAIRS.split("\n", 1)[1], "the header line, which names the columns, is not there"),
        ("NPU0    X     HCCS\n", "the header line, which names the columns, is not there"),
    ],
)
def test_refuses_what_could_only_be_guessed(text: str, words: str) -> None:
    assert words in refused(text)


def test_rows_without_a_header_name_their_columns_by_their_own_x() -> None:
    matrix = read("   Phy-ID4  X  SIO  HCCS_SW\n   Phy-ID5  SIO  X  HCCS_SW\n   Phy-ID9  HCCS_SW  HCCS_SW  X\n")
    assert matrix.names == ("Phy-ID4", "Phy-ID5", "Phy-ID9")
    assert kinds(matrix)["Phy-ID9", "Phy-ID5"] == "HCCS_SW"


def test_missing_rows_are_said_and_columns_speak_for_them() -> None:
    matrix = read(
        "     Phy-ID2 Phy-ID3 Phy-ID12 Phy-ID13\nPhy-ID2 X SIO HCCS_SW HCCS_SW\nPhy-ID3 SIO X HCCS_SW HCCS_SW\n"
    )
    assert kinds(matrix)["Phy-ID13", "Phy-ID2"] == "HCCS_SW"
    assert ("Phy-ID12", "Phy-ID13") not in matrix.relations
    assert "no rows for Phy-ID12, Phy-ID13" in matrix.unseen[0]


def test_what_is_not_symmetric_is_a_contradiction_and_both_sides_stay() -> None:
    matrix = read(PAIRS.replace("NPU1    HCCS", "NPU1    SYS "))
    assert kinds(matrix) == {("NPU0", "NPU1"): "HCCS", ("NPU1", "NPU0"): "SYS"}
    assert matrix.contradictions == (f"{COMMAND} is not symmetric: NPU0 to NPU1 is HCCS and back is SYS",)


def test_what_the_tool_does_not_know_is_said() -> None:
    matrix = read(PAIRS.replace("HCCS", "NA  "))
    assert matrix.relations == {}
    assert matrix.unseen == (f"{COMMAND}: the tool does not know how these are joined: NPU0 to NPU1, NPU1 to NPU0",)


def test_interfaces_have_no_affinity_and_a_legend() -> None:
    text = texts.nvidia_topo(
        ["GPU0"], lambda a, b: "PIX", {"GPU0": "0-7,16-23"}, {"GPU0": "0-1"}, nics=["NIC0"], legend={"NIC0": "mlx5_4"},
        gpu_numa=True,
    )  # fmt: skip
    matrix = read(text)
    assert matrix.nic_names == {"NIC0": "mlx5_4"}
    assert matrix.cpus == {"GPU0": frozenset({*range(8), *range(16, 24)})}
    assert matrix.numa == {"GPU0": frozenset({0, 1})}
    assert matrix.unseen == ()


def test_old_words() -> None:
    matrix = read("\tGPU0\tGPU1\tmlx5_0\nGPU0\t X \tPSB\tSOC\nGPU1\tPSB\t X \tSOC\nmlx5_0\tSOC\tSOC\t X \n")
    assert matrix.relations["GPU0", "GPU1"] == Relation(kind=LinkKind.PCIE, path=PciePath.PIX)
    assert matrix.relations["mlx5_0", "GPU1"] == Relation(kind=LinkKind.PCIE, path=PciePath.SYS)


def test_links_carry_kind_path_and_bonds_and_no_figures() -> None:
    matrix = read("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV12\tPHB\nGPU1\tNV12\t X \tPHB\nGPU2\tPHB\tPHB\t X \n")
    links = {(link.src, link.dst): link for link in links_of(matrix, {"GPU0": "a", "GPU1": "b", "GPU2": "c"})}
    assert len(links) == 6
    assert (links["a", "b"].kind, links["a", "b"].n_bonded) == (LinkKind.NVLINK, 12)
    assert (links["b", "c"].kind, links["b", "c"].path) == (LinkKind.PCIE, PciePath.PHB)
    assert links["a", "b"].bandwidth_gb_per_s is None
    assert [link.dst for link in links_of(matrix, {"GPU0": "a", "GPU2": "c"})] == ["c", "a"]


def test_a_node_is_near_only_alone() -> None:
    nodes, cpus = {0: "numa0", 1: "numa1"}, {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    assert near_node(frozenset({2}), nodes, cpus) == "numa1"
    assert near_node(frozenset({1, 2}), nodes, cpus) is None
    assert near_node(frozenset({9}), nodes, cpus) is None


def test_no_word_of_a_matrix_is_no_matrix() -> None:
    assert read_matrix(COMMAND, lines_of("nothing here\nroot@hosta:~# \n")) is None


def test_a_megabyte_of_blanks_takes_no_time() -> None:
    assert kinds(read(" " * 1_000_000 + PAIRS.replace("  CPU", " " * 1_000_000 + "CPU") + " " * 1_000_000)) == HCCS


NPU_WORDS = ("HCCS", "HCCS_SW", "SIO", "UB", "PIX", "PXB", "PHB", "SYS", "NA")
NVIDIA_WORDS = ("NV1", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "PSB")


@st.composite
def symmetric(draw: st.DrawFn, names: Sequence[str], words: Sequence[str]) -> dict[tuple[str, str], str]:
    told: dict[tuple[str, str], str] = {}
    for index, a in enumerate(names):
        for b in names[:index]:
            told[a, b] = told[b, a] = draw(st.sampled_from(words))
    return told


def numbered(prefix: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.integers(0, 999), min_size=1, max_size=9, unique=True).map(
        lambda numbers: [f"{prefix}{number}" for number in numbers]
    )


cpu_lists = st.sampled_from(["0", "0-7", "144-167", "0-63,128-191", "0-0,2-2,4-4"])


def check(matrix: RelationMatrix, names: Sequence[str], told: Mapping[tuple[str, str], str]) -> None:
    assert matrix.names == tuple(names)
    assert set(matrix.relations) == {pair for pair, word in told.items() if word != "NA"}
    for pair, relation in matrix.relations.items():
        word = {"SOC": "SYS", "PSB": "PIX"}.get(told[pair], told[pair])
        shown = f"NV{relation.n_bonded}" if relation.n_bonded else (relation.path or relation.kind).name
        assert shown == word
    assert matrix.contradictions == ()


@given(data=st.data())
def test_npu_smi_round_trip(data: st.DataObject) -> None:
    names = data.draw(numbered("NPU") | numbered("Phy-ID"))
    told = data.draw(symmetric(names, NPU_WORDS))
    affinity = data.draw(st.none() | st.fixed_dictionaries({name: cpu_lists for name in names}))
    lead = data.draw(st.sampled_from(["\t   ", "", "           "]))
    matrix = read(texts.npu_topo(names, lambda a, b: told[a, b], affinity, lead=lead))
    check(matrix, names, told)
    assert set(matrix.cpus) == set(affinity or ())


@given(data=st.data())
def test_nvidia_smi_round_trip(data: st.DataObject) -> None:
    gpus = data.draw(numbered("GPU"))
    nics = data.draw(st.just([]) | numbered("NIC") | st.just(["mlx5_0", "rocep4s0f1", "bnxt_re_bond0"]))
    told = data.draw(symmetric([*gpus, *nics], NVIDIA_WORDS))
    cpus = data.draw(st.none() | st.fixed_dictionaries({name: cpu_lists for name in gpus}))
    numa = data.draw(
        st.none() | st.fixed_dictionaries({name: st.sampled_from(["0", "0-1", "N/A", ""]) for name in gpus})
    )
    legend = {nic: f"mlx5_{index}" for index, nic in enumerate(nics) if nic.startswith("NIC")}
    gpu_numa = cpus is not None and numa is not None and data.draw(st.booleans())
    text = texts.nvidia_topo(gpus, lambda a, b: told[a, b], cpus, numa, nics=nics, legend=legend, gpu_numa=gpu_numa)
    matrix = read(text)
    check(matrix, [*gpus, *nics], told)
    assert set(matrix.cpus) == set(cpus or ())
    assert set(matrix.numa) == {name for name, node in (numa or {}).items() if node not in ("N/A", "")}
    assert matrix.nic_names == legend
