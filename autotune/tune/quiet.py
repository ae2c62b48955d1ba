"""One thread for the search's own algebra, so that the cores are left to the ranks that are measured.

In:  nothing. Out: a context manager. May not touch: the environment, which ranks and the user's own code share.

A BLAS keeps its threads spinning for a while after they were needed. Beside ranks that share cores, each turn of such a
thread lasts a scheduler's tick: on 2 cores with 8 ranks, 25 of 123 samples of races took 4 ms or more where the call
takes 0.05 to 1 ms, and with one thread none of 112.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """NumPy's and SciPy's algebra runs on the caller's thread meanwhile."""
    # A limit holds for the libraries that are loaded.
    import numpy.linalg  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
