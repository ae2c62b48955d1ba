"""The counts of an all_to_all with unequal parts, agreed by all ranks.

In:  what one rank sends to and expects from each other. Out: what all send to all, or an error on every rank where two
do not agree. May not touch: the parts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .symmetric import Everyones


def agreed_counts(
    send_counts: Sequence[int], recv_counts: Sequence[int], n_ranks: int, everyones: Everyones
) -> NDArray[np.int64]:
    """Elements from rank s to rank r at [s, r].

    Raises:
        UsageError: a list that does not have one count for each rank, or a pair of ranks that differ.
    """
    for name, listed in (("send_counts", send_counts), ("recv_counts", recv_counts)):
        if len(listed) != n_ranks or min(listed) < 0:
            raise UsageError(
                f"{name} is {list(listed)}, not {n_ranks} numbers from 0", remedy="give one count for each rank"
            )
    counts = everyones(np.array([send_counts, recv_counts], np.int64))
    sent, received = counts[:, 0], counts[:, 1]
    if not np.array_equal(sent, received.T):
        source, target = np.argwhere(sent != received.T)[0]
        raise UsageError(
            f"all_to_all_v: rank {source} sends {sent[source, target]} elements to rank {target}, which expects "
            f"{received[target, source]}",
            remedy="give the receiver's recv_counts what the senders send",
        )
    return sent
