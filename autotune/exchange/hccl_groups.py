"""What a measured config is to HCCL's process groups. Pure.

In:  a config, whose names it has, perhaps the chips. Out: the config in HCCL's words, or why it has none.
"""

from __future__ import annotations

from ..hccl import Soc, facts
from ..hccl.groups import AUTO, BACKEND
from ..hccl.legal import objection
from ..types import Config, RuleKey
from .words import Refused, library


def on_hccl(key: RuleKey, config: Config, backend: str, soc: Soc | None) -> Config | str:
    """A measured config of HCCL's collectives, or why no group can have it.

    Args:
        backend: whose names the config has; settings are carried over from HCCL's own alone.
        soc: None where the chips are not known, and legality is not checked.
    """
    knobs = config.knobs if backend == BACKEND else ()
    meant = Config(algorithm=AUTO, knobs=knobs)
    if config.algorithm != AUTO:
        words = library("hccl-env")
        if key.collective not in words.calls:
            return f"{key.collective.value}: {words.refused[key.collective]}"
        try:
            word = words.word(words.calls[key.collective][0], config, backend)
        except Refused as why:
            return f"{key.collective.value}: {why}"
        meant = Config(algorithm=word, knobs=knobs)
    why_not = None if soc is None else objection(facts(soc), _of_hccl(key), meant)
    return meant if why_not is None else f"{key.collective.value} {meant}: {why_not}"


def _of_hccl(key: RuleKey) -> RuleKey:
    return RuleKey(
        backend=BACKEND,
        collective=key.collective,
        dtype=key.dtype,
        op_class=key.op_class,
        n_ranks=key.n_ranks,
        placement=key.placement,
    )
