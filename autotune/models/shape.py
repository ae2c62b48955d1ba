"""A decoder's dimensions: of a published model by its name, or of any other in words.

In:  ``qwen-72b``, or ``hidden=4096,layers=32,heads=32,...``. Out: a checked `ModelShape`. May not touch: weights; only
the list of shapes that is part of the package.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

import yaml

from ..errors import UsageError

_LARGEST = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder-only transformer.

    Args:
        hidden: elements of a token's state between layers.
        heads: of the queries; ``kv_heads`` of keys and values.
        intermediate: width of a dense MLP.
        experts: of a mixture-of-experts layer; None in a dense model.
        experts_per_token: to which a router sends each token.
        dense_layers: how many of the layers have a dense MLP though the model has experts.
        kv_width: elements that a token leaves in a layer's cache; None for 2 x kv_heads x head_dim. A latent (MLA) has
            no heads and is not split over tensor-parallel ranks.
        source: where the figures were published.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    experts: int | None = None
    experts_per_token: int | None = None
    expert_intermediate: int | None = None
    dense_layers: int = 0
    kv_width: int | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads over {self.kv_heads} kv_heads")
        if (self.experts is None) != (self.experts_per_token is None):
            raise ValueError("experts and experts_per_token are given together")
        if self.experts is not None and not 1 <= (self.experts_per_token or 0) <= self.experts:
            raise ValueError(f"experts_per_token {self.experts_per_token} of {self.experts} experts")
        if not 0 <= self.dense_layers <= self.layers:
            raise ValueError(f"{self.dense_layers} dense_layers of {self.layers} layers")

    @property
    def moe_layers(self) -> int:
        return 0 if self.experts is None else self.layers - self.dense_layers


_NUMBERS = tuple(field.name for field in fields(ModelShape) if field.name not in ("name", "source"))
_NEEDED = ("hidden", "layers", "heads", "intermediate", "vocab")


def shape_names() -> tuple[str, ...]:
    """The published models that are known."""
    return tuple(_known())


def model_shape(words: str) -> ModelShape:
    """A known model by name, or ``name=number,...`` with at least hidden, layers, heads, intermediate and vocab.

    ``kv_heads`` is the number of heads where it is not given, ``head_dim`` is hidden / heads.

    Raises:
        UsageError: an unknown name, a number that is none, or numbers that do not fit each other.
    """
    if "=" not in words:
        found = _known().get(words)
        if found is None:
            raise UsageError(
                f"model {words!r} is not known; known are {', '.join(_known())}",
                remedy="name one of them, or write hidden=4096,layers=32,heads=32,intermediate=11008,vocab=32000",
            )
        return found
    given: dict[str, int] = {}
    for part in words.split(","):
        name, _, number = part.partition("=")
        name, number = name.strip(), number.strip()
        if name not in _NUMBERS or name in given:
            raise UsageError(
                f"model shape: {part!r}; each of {', '.join(_NUMBERS)} may stand once, as name=number",
                remedy="write hidden=4096,layers=32,heads=32,intermediate=11008,vocab=32000",
            )
        least = 0 if name == "dense_layers" else 1
        if not (number.isascii() and number.isdigit() and least <= int(number[:12]) < _LARGEST):
            raise UsageError(
                f"model shape: {name} is {number!r}, which is not a whole number from {least} up",
                remedy=f"write {name}=NUMBER",
            )
        given[name] = int(number)
    missing = [name for name in _NEEDED if name not in given]
    if missing:
        raise UsageError(f"model shape: {', '.join(missing)} is missing", remedy=f"add {missing[0]}=NUMBER")
    return _checked("given shape", given)


def _checked(name: str, given: dict[str, int]) -> ModelShape:
    if "head_dim" not in given:
        if given["hidden"] % given["heads"]:
            raise UsageError(
                f"model shape: hidden {given['hidden']} does not divide by {given['heads']} heads",
                remedy="add head_dim=NUMBER",
            )
        given["head_dim"] = given["hidden"] // given["heads"]
    given.setdefault("kv_heads", given["heads"])
    dimensions: dict[str, Any] = {"name": name, **given}  # Any: what a keyword takes
    try:
        return ModelShape(**dimensions)
    except ValueError as err:
        raise UsageError(f"model shape: {err}", remedy="write numbers that fit each other") from err


@functools.cache
def _known() -> dict[str, ModelShape]:
    text = resources.files(__package__).joinpath("shapes.yaml").read_text("utf-8")
    return {name: ModelShape(name=name, **entry) for name, entry in yaml.safe_load(text).items()}
