"""Shapes by name and in words: what is known adds up, what cannot be meant is refused."""

from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.models import ModelShape, model_shape, shape_names

# Parameters as published with the weights, in 1e9; embeddings and logits counted once each.
PUBLISHED = {
    "qwen-72b": 72.3,
    "qwen2.5-7b": 7.6,
    "qwen2.5-32b": 32.8,
    "qwen2.5-72b": 72.7,
    "qwen3-235b-a22b": 235.1,
    "llama-2-7b": 6.7,
    "llama-2-70b": 69.0,
    "llama-3.1-8b": 8.0,
    "llama-3.1-70b": 70.6,
    "llama-3.1-405b": 405.9,
    "mixtral-8x7b": 46.7,
}


def parameters(shape: ModelShape) -> float:
    attention = 2 * shape.hidden * shape.head_dim * (shape.heads + shape.kv_heads)
    dense = 3 * shape.hidden * shape.intermediate
    experts = 3 * shape.hidden * (shape.expert_intermediate or 0) * (shape.experts or 0)
    layers = shape.layers * attention + (shape.layers - shape.moe_layers) * dense + shape.moe_layers * experts
    return layers + 2 * shape.vocab * shape.hidden


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_parameters_follow_from_the_shape(name: str) -> None:
    assert parameters(model_shape(name)) / 1e9 == pytest.approx(PUBLISHED[name], rel=0.01)


def test_every_known_model_says_where_its_figures_are_from() -> None:
    assert set(PUBLISHED) | {"deepseek-v3"} == set(shape_names())
    assert all(model_shape(name).source for name in shape_names())


def test_words_are_completed() -> None:
    shape = model_shape("hidden=512,layers=8,heads=8,intermediate=2048,vocab=1000")
    assert (shape.kv_heads, shape.head_dim, shape.experts) == (8, 64, None)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("qwen-73b", "model 'qwen-73b' is not known; known are qwen-72b"),
        ("hidden=512", "layers, heads, intermediate, vocab is missing"),
        ("hidden=512,hidden=512", "'hidden=512'; each of hidden,"),
        ("width=512", "'width=512'; each of hidden,"),
        ("hidden=-1", "hidden is '-1', which is not a whole number from 1 up"),
        ("hidden=0", "hidden is '0'"),
        ("hidden=\u0665", "hidden is '\u0665'"),
        ("hidden=" + "9" * 5000, "which is not a whole number"),
        ("hidden=10,layers=1,heads=3,intermediate=4,vocab=5", "hidden 10 does not divide by 3 heads"),
        ("hidden=12,layers=1,heads=3,kv_heads=2,intermediate=4,vocab=5", "3 heads over 2 kv_heads"),
        ("hidden=12,layers=1,heads=3,intermediate=4,vocab=5,experts=4", "are given together"),
        ("hidden=12,layers=1,heads=3,intermediate=4,vocab=5,experts=4,experts_per_token=5", "5 of 4 experts"),
        ("hidden=12,layers=1,heads=3,intermediate=4,vocab=5,dense_layers=2", "2 dense_layers of 1 layers"),
        ("=", "'='; each of"),
    ],
)
def test_words_that_cannot_be_meant(words: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        model_shape(words)
    assert complaint in caught.value.message
    assert caught.value.remedy
