"""Strict readers of the exported formats, each after its library's own parser: which algorithm a call gets.

They refuse what the library would misread in silence, and are the other half of every round trip.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from typing import Any

Decide = Callable[[str, int, int], str | None]
"""(the library's name of a call, ranks, size as the library counts it) -> what it does, or None for its own choice."""


OPENMPI_CALLS = {
    0: "allgather",
    2: "allreduce",
    3: "alltoall",
    7: "bcast",
    11: "reduce",
    12: "reduce_scatter",
    13: "reduce_scatter_block",
}


def openmpi(text: str) -> Decide:
    """coll_tuned_dynamic_file.c and coll_tuned_dynamic_rules.c of Open MPI 5."""
    assert text.startswith("rule-file-version-2\n")
    words = [word for line in text.splitlines()[1:] for word in line.partition("#")[0].split()]
    assert all(word.isdigit() for word in words)
    numbers = list(map(int, words))

    def take() -> int:
        return numbers.pop(0)

    calls: dict[str, list[tuple[int, list[tuple[int, ...]]]]] = {}
    ids = []
    for _ in range(take()):
        ids.append(take())
        entries = []
        for _ in range(take()):
            n_ranks = take()
            rows = [tuple(take() for _ in range(5)) for _ in range(take())]
            assert rows[0][0] == 0, "the first row of each communicator is for 0 bytes"
            assert [row[0] for row in rows] == sorted({row[0] for row in rows})
            entries.append((n_ranks, rows))
        assert [entry[0] for entry in entries] == sorted({entry[0] for entry in entries})
        calls[OPENMPI_CALLS[ids[-1]]] = entries
    assert not numbers, "nothing after the last row"
    assert ids == sorted(set(ids))

    def decide(call: str, n_ranks: int, size: int) -> str | None:
        entries = calls.get(call, [])
        if not entries:
            return None
        rows = [rows for ranks, rows in entries if ranks <= n_ranks] or [entries[0][1]]
        row = [row for row in rows[-1] if row[0] <= size][-1]
        return None if row[1] == 0 else str(row[1])

    return decide


def openmpi_json(text: str) -> Decide:
    """coll_tuned_dynamic_file.c of Open MPI 6."""
    root = json.loads(text)
    assert (root["rule_file_version"], root["module"]) == (3, "tuned")

    def decide(call: str, n_ranks: int, size: int) -> str | None:
        for entry in root["collectives"].get(call, []):
            assert entry["comm_rank_distribution"] in ("any", "one-per-node", "single-node")
            if entry["comm_size_min"] <= n_ranks <= entry["comm_size_max"]:
                for rule in entry["rules"]:
                    if rule["msg_size_min"] <= size <= rule["msg_size_max"]:
                        return str(rule["alg"])
                return None
        return None

    return decide


def ucc(text: str) -> Decide:
    """ucc_coll_score.c: tokens by #, fields by :, ranges with both ends."""
    (command, assignment) = shlex.split(text)
    assert command == "export"
    name, _, value = assignment.partition("=")
    assert name == "UCC_TL_UCP_TUNE"
    rows = []
    for token in value.split("#"):
        call, sizes, memory, team, score, algorithm = token.split(":")
        low, high = map(int, sizes.split("-"))
        assert (memory, score) == ("host", "inf")
        assert low <= high
        rows.append((call, int(team.strip("[]")), low, high, algorithm.removeprefix("@")))
    assert_disjoint([(row[:2], row[2], row[3]) for row in rows])

    def decide(call: str, n_ranks: int, size: int) -> str | None:
        return next((row[4] for row in rows if row[:2] == (call, n_ranks) and row[2] <= size <= row[3]), None)

    return decide


NCCL_CALLS = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
NCCL_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")


def nccl_csv(text: str) -> Decide:
    """plugin.c of NCCL's example, without its habit of taking unknown words for others."""
    rows = []
    for line in text.splitlines():
        assert len(line) < 255
        if line.startswith("#"):
            continue
        fields = line.split(",")
        assert len(fields) == 10
        assert all(fields), "empty fields would be merged"
        call, low, high, algorithm, protocol, channels, nodes, ranks, pipe_ops, registered = fields
        assert call in NCCL_CALLS
        assert algorithm in NCCL_ALGORITHMS
        assert protocol in ("ll", "ll128", "simple")
        assert 1 <= int(channels) <= 64, "-1 is not NCCL's own number"
        assert (pipe_ops, registered) == ("-1", "-1")
        assert int(nodes) == -1 or int(nodes) >= 1
        rows.append((call, int(ranks), int(low), int(high), f"{algorithm}/{protocol}/{channels}"))
    assert_disjoint([(row[:2], row[2], row[3]) for row in rows])

    def decide(call: str, n_ranks: int, size: int) -> str | None:
        for found, ranks, low, high, what in rows:
            if found == call and ranks in (-1, n_ranks) and low <= size <= high:
                return what
        return None

    return decide


def hccl_json(text: str) -> Decide:
    """plugin.cpp of HCCL's example: anything that its schema refuses makes it pass over the whole file."""
    root = json.loads(text)
    assert set(root) == {"version", "op_types"}
    assert root["version"] == 1
    rules: dict[str, list[dict[str, Any]]] = {name: value["rules"] for name, value in root["op_types"].items()}
    assert len(text) <= 4 << 20
    assert sum(map(len, rules.values())) <= 5000
    spans = []
    for name, found in rules.items():
        assert name in ("allreduce", "allgather", "reduce_scatter"), "the tuner takes part in no other"
        for rule in found:
            assert set(rule) == {"match", "engine", "executor", "template", "cost"}
            match = rule["match"]
            optional = {"data_type", "min_servers", "max_servers", "min_npus_per_server", "max_npus_per_server"}
            assert (
                {"min_ranks", "max_ranks", "min_bytes", "max_bytes"}
                <= set(match)
                <= optional
                | {
                    "min_ranks",
                    "max_ranks",
                    "min_bytes",
                    "max_bytes",
                }
            )
            assert rule["engine"] in ("aicpu", "ccums", "ccusched", "aiv", "dpu")
            assert rule["executor"] in ("sole", "sequence", "parallel", "pipeline", "concur")
            assert rule["cost"] == 0.0
            kind = (name, match["min_ranks"], match.get("data_type"), match["min_servers"])
            spans.append((kind, match["min_bytes"], match["max_bytes"]))
    assert_disjoint(spans)

    def decide(call: str, n_ranks: int, size: int) -> str | None:
        for rule in rules.get(call, []):
            match = rule["match"]
            fits = match.get("data_type", "fp32") == "fp32" and match["min_ranks"] <= n_ranks <= match["max_ranks"]
            if fits and match["min_bytes"] <= size <= match["max_bytes"]:
                return str(rule["template"])
        return None

    return decide


def mpich(text: str) -> Decide:
    """csel.c: children in order, no way back out of one, every chain of sizes closed by ``any``; None without result,
    which only the device's tree may have (posix_coll.h)."""
    tree = json.loads(text)
    assert len(text.encode()) % 4096, "MPICH reads to a NUL that a full last page does not have"
    _closed(tree, "")

    def decide(call: str, n_ranks: int, size: int) -> str | None:
        node = tree[f"collective={call}"]
        while True:
            taken = next((child for child in node if _holds(child, n_ranks, size)), None)
            if taken is None:
                assert list(node) == ["is_multi_threaded=yes"], (
                    f"no child of {list(node)} for {n_ranks} ranks, {size} bytes"
                )
                return None
            if taken.startswith("algorithm="):
                return taken.removeprefix("algorithm=")
            node = node[taken]

    return decide


def _closed(node: dict[str, Any], path: str) -> None:
    tests = [child for child in node if re.match(r"(avg_msg_size|total_msg_size|comm_size|count)[<=]", child)]
    if tests and not path.endswith("}"):
        assert list(node)[-1].endswith("=any"), f"{path}: {list(node)} is not closed by any"
    for test in ("avg_msg_size<=", "total_msg_size<="):
        sizes = [int(child.removeprefix(test)) for child in node if child.startswith(test)]
        assert sizes == sorted(set(sizes))
        assert all(size < 1 << 31 for size in sizes)
    for child, inner in node.items():
        if not child.startswith("algorithm="):
            assert inner, f"{path}/{child} leads nowhere"
            _closed(inner, f"{path}/{child}")


def _holds(child: str, n_ranks: int, size: int) -> bool:
    """For a built-in, commutative operation, out of place, on one host, with more elements than ranks."""
    if child.startswith("algorithm=") or child.endswith("=any"):
        return True
    if match := re.match(r"comm_size(<=|<)(\d+)$", child):
        return n_ranks <= int(match[2]) if match[1] == "<=" else n_ranks < int(match[2])
    if match := re.match(r"(?:avg|total)_msg_size(<=|<)(\d+)$", child):
        return size <= int(match[2]) if match[1] == "<=" else size < int(match[2])
    yes = {"comm_type=intra", "is_op_built_in=yes", "is_commutative=yes", "is_sendbuf_inplace=no"}
    yes |= {"is_multi_threaded=no"}
    no = {"comm_type=inter", "is_op_built_in=no", "is_commutative=no", "is_sendbuf_inplace=yes", "count<pow2"}
    no |= {"is_multi_threaded=yes"}
    assert child in yes | no | {"comm_size=pow2", "comm_hierarchy=parent"}, child
    return child in yes or (child == "comm_size=pow2" and n_ranks & (n_ranks - 1) == 0)


def assert_disjoint(spans: list[tuple[object, int, int]]) -> None:
    """Ranges with both ends, of one kind, share no size."""
    for kind in {span[0] for span in spans}:
        own = sorted(span[1:] for span in spans if span[0] == kind)
        assert all(low <= high for low, high in own)
        assert all(before[1] < after[0] for before, after in pairwise(own)), own
