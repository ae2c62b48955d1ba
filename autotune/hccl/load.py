"""The strict reader of socs/*.json: a name that it does not know, or a value of the wrong kind, is an error.

In:  a family of chips, or a text. Out: `SocFacts`. May not touch: anything but the package's own files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from ..table.reader import Node, read_json
from ..types import Collective, DType, OpClass
from .facts import (
    Buffer,
    Conflict,
    Counted,
    Engine,
    Mode,
    MoeAlgorithm,
    SelectionRule,
    SelectionRules,
    Setting,
    SocFacts,
    Test,
    Threshold,
    Times,
    ValueKind,
    Weight,
)
from .soc import OPERATORS, Soc


@cache
def facts(soc: Soc) -> SocFacts:
    """What is known of HCCL on a family of chips."""
    name = f"{soc.value}.json"
    return parse_facts((resources.files(__package__) / "socs" / name).read_text("utf-8"), name)


def parse_facts(text: str, source: str) -> SocFacts:
    """The facts of a text.

    Raises:
        TableFormatError: with the file's name and the place.
    """
    at = read_json(text, source).members(
        "soc",
        "title",
        "machines",
        "chips",
        "level1",
        "level2",
        "deprecated",
        "variables",
        "group_options",
        "modes",
        "conflicts",
        "moe",
        "selection",
    )
    level1 = {name: _texts(node) for name, node in at["level1"].members(*OPERATORS.values()).items()}
    found = SocFacts(
        soc=at["soc"].word(Soc),
        title=at["title"].text(),
        machines=_texts(at["machines"]),
        chips=_texts(at["chips"]),
        level1=level1,
        level2=_texts(at["level2"]),
        deprecated=_texts(at["deprecated"]),
        variables={name: _setting(name, node) for name, node in at["variables"].entries().items()},
        group_options={name: _setting(name, node) for name, node in at["group_options"].entries().items()},
        modes={name: _mode(node) for name, node in at["modes"].entries().items()},
        conflicts=tuple(_conflict(node) for node in at["conflicts"].items()),
        moe=tuple(_moe(node) for node in at["moe"].items()),
        selection=None if at["selection"].optional() is None else _selection(at["selection"]),
    )
    for name, setting in found.variables.items():
        for other in setting.beside or ():
            if other not in found.variables:
                raise at["variables"].error(f"{name} acts beside {other}, which is no variable")
    return found


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(item.text() for item in node.items())


def _setting(name: str, node: Node) -> Setting:
    optional = (
        "default",
        "low",
        "high",
        "multiple_of",
        "unit",
        "advised",
        "words",
        "codes",
        "tries",
        "several_hosts",
        "beside",
        "why",
    )
    at = node.members("kind", "source", may_have=optional)
    kind = at["kind"].word(ValueKind)
    codes = None if "codes" not in at else {word: code.whole() for word, code in at["codes"].entries().items()}
    if kind is ValueKind.WHOLE and not {"low", "high"} <= at.keys():
        raise node.error("a whole number needs low and high")
    if kind is ValueKind.NO_EFFECT and "why" not in at:
        raise node.error("a setting without effect needs why")
    return Setting(
        name=name,
        kind=kind,
        source=at["source"].text(),
        default=None if "default" not in at else _scalar(at["default"]),
        low=_whole(at, "low"),
        high=_whole(at, "high"),
        multiple_of=_whole(at, "multiple_of"),
        unit=None if "unit" not in at or at["unit"].optional() is None else at["unit"].text(),
        advised=_whole(at, "advised"),
        words=tuple(codes or ()) if "words" not in at else _texts(at["words"]),
        codes=codes,
        tries=() if "tries" not in at else tuple(_scalar(item) for item in at["tries"].items()),
        several_hosts="several_hosts" in at and at["several_hosts"].truth(),
        beside=None if "beside" not in at else {k: v.text() for k, v in at["beside"].entries().items()},
        why=None if "why" not in at else at["why"].text(),
    )


def _whole(at: Mapping[str, Node], name: str) -> int | None:
    return None if name not in at or at[name].optional() is None else at[name].whole()


def _scalar(node: Node) -> int | float | str:
    if isinstance(node.value, str):
        return node.text()
    return node.whole() if isinstance(node.value, int) else node.number()


def _mode(node: Node) -> Mode:
    at = node.members("collectives", "computes", "moves", "ops", "servers", "source")
    return Mode(
        collectives=frozenset(item.word(Collective) for item in at["collectives"].items()),
        computes=frozenset(item.word(DType) for item in at["computes"].items()),
        moves=frozenset(item.word(DType) for item in at["moves"].items()),
        ops=frozenset(item.word(OpClass) for item in at["ops"].items()),
        servers=_whole(at, "servers"),
        source=at["source"].text(),
    )


def _conflict(node: Node) -> Conflict:
    at = node.members("severity", "when", "what", "why", "source", "remedy")
    when = []
    for triple in at["when"].items():
        variable, test, value = triple.items()
        when.append((variable.text(), test.word(Test), value.text()))
    return Conflict(
        weight=at["severity"].word(Weight),
        when=tuple(when),
        what=at["what"].text(),
        why=at["why"].text(),
        source=at["source"].text(),
        remedy=at["remedy"].text(),
    )


def _moe(node: Node) -> MoeAlgorithm:
    at = node.members("comm_alg", "ranks", "ranks_from", "ranks_to", "multiple_of", "quant_modes", "buffer", "source")
    if at["ranks"].optional() is not None:
        ranks = frozenset(item.whole(1) for item in at["ranks"].items())
    else:
        step = _whole(at, "multiple_of") or 1
        every = range(at["ranks_from"].whole(1), at["ranks_to"].whole(1) + 1)
        ranks = frozenset(n for n in every if n % step == 0)
    return MoeAlgorithm(
        comm_alg=at["comm_alg"].text(),
        ranks=ranks,
        quant_modes=tuple(item.whole() for item in at["quant_modes"].items()),
        buffer=None if at["buffer"].optional() is None else at["buffer"].word(Buffer),
        source=at["source"].text(),
    )


def _selection(node: Node) -> SelectionRules:
    at = node.members("engines", "halving", "alpha_us", "beta_gb_per_s", "copy_gb_per_s", "alpha_source", "rules")
    engines = {}
    for mode, engine in at["engines"].entries().items():
        parts = engine.members("call_us", "message_us", "floor_us", "source")
        engines[mode] = Engine(
            call_us=parts["call_us"].number(),
            message_us=parts["message_us"].number(),
            floor_us=parts["floor_us"].number(),
            source=parts["source"].text(),
        )
    return SelectionRules(
        engines=engines,
        halving=at["halving"].text(),
        alpha_us=at["alpha_us"].number(),
        beta_gb_per_s=at["beta_gb_per_s"].number(),
        copy_gb_per_s=at["copy_gb_per_s"].number(),
        alpha_source=at["alpha_source"].text(),
        rules=tuple(_rule(item) for item in at["rules"].items()),
    )


def _rule(node: Node) -> SelectionRule:
    at = node.members("collective", "when", "executor", "schedule", "source")
    when = at["when"].members(
        "servers", may_have=("ranks", "mode", "power_of_two", "several_devices", "up_to", "below", "from")
    )
    return SelectionRule(
        collective=at["collective"].word(Collective),
        servers=_pair(when["servers"]),
        ranks=None if "ranks" not in when else _pair(when["ranks"]),
        mode=None if "mode" not in when else when["mode"].text(),
        power_of_two="power_of_two" in when and when["power_of_two"].truth(),
        several_devices="several_devices" in when and when["several_devices"].truth(),
        up_to=_threshold(when.get("up_to")),
        below=_threshold(when.get("below")),
        at_least=_threshold(when.get("from")),
        executor=at["executor"].text(),
        schedule=at["schedule"].text(),
        source=at["source"].text(),
    )


def _pair(node: Node) -> tuple[int, int]:
    low, high = node.items()
    return low.whole(1), high.whole(1)


def _threshold(node: Node | None) -> Threshold | None:
    if node is None:
        return None
    at = node.members("counted", "bytes", may_have=("times",))
    return Threshold(
        counted=at["counted"].word(Counted),
        n_bytes=at["bytes"].whole(1),
        times=at["times"].word(Times) if "times" in at else Times.ONE,
    )
