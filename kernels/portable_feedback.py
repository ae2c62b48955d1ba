"""Error feedback for tensors: what lossy codecs dropped of a rank's contributions, to be added to the next ones.

In:  contributions, by the caller's name of the buffer, on any device. Out: corrected ones, and the residual into which
the portable executor adds what this rank drops. The words and rules are those of feedback.py, whose arrays are of the
host.
May not touch: schedules, groups.
"""

from __future__ import annotations

import torch

from ..errors import UsageError
from .residuals import Residuals

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class TensorFeedback(Residuals[tuple[torch.dtype, torch.Tensor]]):
    """The residuals of one rank. Not thread-safe: a name belongs to one call at a time."""

    def corrected(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """A new tensor like `values`: values plus the residual, rounded. What rounding leaves becomes the residual.

        Raises:
            UsageError: an integer type, or another type, size or device than the name had before.
        """
        residual = self.residual(name, values)
        exact = values.detach().reshape(-1).to(residual.dtype) + residual
        rounded = exact.to(values.dtype)
        left = exact - rounded.to(residual.dtype)
        residual.copy_(torch.where(left.isfinite(), left, 0.0))
        return rounded.view(values.shape)

    def residual(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """What is left over of a name, to be added to: a float32 vector; float64 for float64.

        Raises:
            UsageError: as ``corrected``.
        """
        if values.dtype not in _FLOATS:
            raise UsageError(
                f"error feedback for {name!r}: {values.dtype} is not a floating type",
                remedy=f"use it for {', '.join(str(kind).removeprefix('torch.') for kind in _FLOATS)}",
            )
        known = self._entries.get(name)
        if known is None:
            wide = torch.float64 if values.dtype is torch.float64 else torch.float32
            fresh = torch.zeros(values.numel(), dtype=wide, device=values.device)
            known = self._entries[name] = (values.dtype, fresh)
        dtype, residual = known
        if (dtype, residual.numel(), residual.device) != (values.dtype, values.numel(), values.device):
            raise UsageError(
                f"error feedback for {name!r} was for {residual.numel()} elements of {dtype} on {residual.device}, "
                f"and is now asked for {values.numel()} of {values.dtype} on {values.device}",
                remedy=f"give the other buffer another name, or call reset({name!r}) first",
            )
        return residual

    def norm(self, name: str) -> float:
        """The Euclidean norm of what is left over of a name, in units of a contribution.

        Raises:
            UsageError: the name is unknown.
        """
        return float(torch.linalg.vector_norm(self._known(name)[1]))
