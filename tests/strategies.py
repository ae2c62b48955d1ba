"""Hypothesis strategies for the vocabulary: legal values only, small on purpose, ranks from 1 to 9.

One file for all rooms; whoever adds a value to ``autotune.types`` adds its strategy here.
"""

from __future__ import annotations

import hypothesis.strategies as st

from autotune.types import (
    Collective,
    Config,
    DType,
    KnobValue,
    Memory,
    OpClass,
    Phase,
    Problem,
    RuleKey,
    Sample,
    SampleKind,
    Trial,
    TrialState,
    WrongElement,
)

# Any text that a file can hold: no lone surrogates, no NUL.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Z"]), min_size=1, max_size=20)
# Round trips lose digits at extremes first, so no range is left out.
times_us = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
max_errors = st.none() | st.floats(min_value=1e-12, max_value=1.0)


@st.composite
def placements(draw: st.DrawFn, max_ranks: int = 9) -> tuple[int, ...]:
    """Ranks on each host, ascending."""
    n_ranks = draw(st.integers(1, max_ranks))
    hosts: list[int] = []
    while sum(hosts) < n_ranks:
        hosts.append(draw(st.integers(1, n_ranks - sum(hosts))))
    return tuple(sorted(hosts))


@st.composite
def rule_keys(draw: st.DrawFn) -> RuleKey:
    collective = draw(st.sampled_from(Collective))
    placement = draw(placements())
    return RuleKey(
        backend=draw(st.sampled_from(("native", "torch", "hccl", "openmpi"))),
        collective=collective,
        dtype=draw(st.sampled_from(DType)) if collective.computes else None,
        op_class=draw(st.sampled_from(OpClass)) if collective.computes else None,
        n_ranks=sum(placement),
        placement=placement,
        memory=draw(st.sampled_from(Memory)),
        max_error=draw(max_errors),
    )


def problems() -> st.SearchStrategy[Problem]:
    return st.builds(Problem, key=rule_keys(), message_bytes=st.integers(0, 1 << 46))


def configs() -> st.SearchStrategy[Config]:
    values: st.SearchStrategy[KnobValue] = st.integers(-(1 << 62), 1 << 62) | texts
    knobs = st.dictionaries(names, values, max_size=3)
    return st.builds(
        Config,
        algorithm=names,
        segment_bytes=st.none() | st.integers(1, 1 << 46),
        codec=st.just("none") | names,
        knobs=knobs.map(lambda chosen: tuple(sorted(chosen.items()))),
    )


def samples() -> st.SearchStrategy[Sample]:
    return st.builds(
        Sample,
        kind=st.sampled_from(SampleKind),
        phase=st.sampled_from(Phase),
        round=st.integers(0, 1 << 20),
        position=st.integers(0, 100),
        batch_calls=st.integers(1, 1 << 20),
        time_us=times_us,
    )


def wrong_elements() -> st.SearchStrategy[WrongElement]:
    return st.builds(WrongElement, rank=st.integers(0, 8), index=st.integers(0, 1 << 46), got=texts, expected=texts)


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    """Not yet stored (no trial_id, session 1); samples in the store's order, one for each phase, round and kind."""
    state = draw(st.sampled_from(TrialState))
    taken = draw(st.lists(samples(), max_size=6, unique_by=lambda sample: (sample.phase, sample.round, sample.kind)))
    phases, kinds = list(Phase), list(SampleKind)
    taken.sort(key=lambda sample: (phases.index(sample.phase), sample.round, kinds.index(sample.kind)))
    return Trial(
        trial_id=None,
        session_id=1,
        problem=draw(problems()),
        config=draw(configs()),
        state=state,
        samples=tuple(taken),
        message="" if state is TrialState.OK else draw(texts.filter(bool)),
        wrong=draw(st.none() | wrong_elements()) if state is TrialState.WRONG_RESULT else None,
    )
