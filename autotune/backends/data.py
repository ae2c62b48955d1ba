"""The data that lossy configs are judged on: a named distribution, or the user's own numbers from a file.

In:  words from the command line. Out: a word that says all, for plans and ranks; the elements of each rank.
May not touch: the group. Every rank makes its own part, the same one every time.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..types import DType

DISTRIBUTIONS = ("normal", "laplace", "sparse:0.99")
_SPARSE = re.compile(r"sparse:(0|0?\.\d+|1(\.0*)?)")
_FILE = "file:"


def data_word(file: str | None, distribution: str | None) -> str:
    """``"normal"``, ``"laplace"``, ``"sparse:0.99"`` (normal, but for 99 % of zeros), or a file's digest and path.

    Raises:
        UsageError: neither or both are given, no such distribution, or a file without floating numbers.
    """
    if (file is None) == (distribution is None):
        raise UsageError(
            "an error budget counts for data, and " + ("none is" if file is None else "two are") + " given",
            remedy="give --data FILE.npy, or --distribution with one of " + ", ".join(DISTRIBUTIONS),
        )
    if file is not None:
        path = Path(file).expanduser().resolve()
        _opened(path)
        with path.open("rb") as opened:
            return f"{_FILE}{hashlib.file_digest(opened, 'sha256').hexdigest()[:16]}:{path}"
    assert distribution is not None
    if distribution not in DISTRIBUTIONS and _SPARSE.fullmatch(distribution) is None:
        raise UsageError(
            f"distribution {distribution!r} is not one of: {', '.join(DISTRIBUTIONS)}",
            remedy="the number behind sparse: is the share of zeros, from 0 to 1",
        )
    return distribution


def elements_of(word: str, rank: int, count: int, dtype: DType) -> NDArray[Any]:
    """A rank's contribution as the type stores it (bfloat16 as 16-bit integers).

    A file is read from one rank to the next, and again from its start where it ends.
    """
    if word.startswith(_FILE):
        numbers = _opened(Path(word.removeprefix(_FILE).partition(":")[2])).reshape(-1)
        first = rank * count % numbers.size
        return _stored(np.take(numbers, np.arange(first, first + count), mode="wrap"), dtype)
    rng = np.random.default_rng([23, rank])
    if word == "laplace":
        return _stored(rng.laplace(size=count), dtype)
    values = rng.normal(size=count)
    if word != "normal":
        values[rng.random(count) < float(word.partition(":")[2])] = 0.0
    return _stored(values, dtype)


def _opened(path: Path) -> NDArray[Any]:
    try:
        numbers = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as err:
        why = str(err) if isinstance(err, OSError) else "it is no whole .npy file of numbers"
        raise UsageError(f"data file {path} cannot be read: {why}", remedy="write it with numpy.save") from err
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind != "f" or numbers.size == 0:
        raise UsageError(
            f"data file {path} holds no floating-point numbers", remedy="save an array of float32, as numpy.save does"
        )
    return numbers


def _stored(values: NDArray[Any], dtype: DType) -> NDArray[Any]:
    if dtype is not DType.BFLOAT16:
        return values.astype(dtype.value)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
