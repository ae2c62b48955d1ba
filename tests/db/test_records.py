from __future__ import annotations

from dataclasses import replace

import pytest
from store_contract import RING, SMALL, timed

from autotune.db import RoundResult, environment_digest
from autotune.types import TrialState, WrongElement

WRONG = WrongElement(rank=0, index=0, got="1", expected="2")


@pytest.mark.parametrize("state", [state for state in TrialState if state is not TrialState.OK])
def test_a_failure_has_a_message_and_no_sample(state: TrialState) -> None:
    RoundResult(problem=SMALL, config=RING, state=state, message="why")
    with pytest.raises(ValueError, match="ring"):
        RoundResult(problem=SMALL, config=RING, state=state)
    with pytest.raises(ValueError, match="ring"):
        replace(timed(SMALL, RING, 0), state=state, message="why")


def test_ok_has_a_sample_and_no_message() -> None:
    with pytest.raises(ValueError, match="ring"):
        RoundResult(problem=SMALL, config=RING)
    with pytest.raises(ValueError, match="ring"):
        replace(timed(SMALL, RING, 0), message="why")


def test_a_wrong_element_belongs_to_a_wrong_result() -> None:
    RoundResult(problem=SMALL, config=RING, state=TrialState.WRONG_RESULT, message="why", wrong=WRONG)
    with pytest.raises(ValueError, match="TIMEOUT"):
        RoundResult(problem=SMALL, config=RING, state=TrialState.TIMEOUT, message="why", wrong=WRONG)


def test_an_environments_digest_depends_on_its_content_alone() -> None:
    digest = environment_digest({"kernel": "6.1", "python": "3.11"})
    assert digest == environment_digest({"python": "3.11", "kernel": "6.1"})
    assert digest != environment_digest({"kernel": "6.1", "python": "3.12"})
    assert digest != environment_digest({"kernel": "3.11", "python": "6.1"})
    assert len(digest) == 16
