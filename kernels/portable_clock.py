"""How long calls take on a device: by its events where it has them, else by the host's clock.

In:  a device, calls that queue work on it. Out: seconds of so many calls back to back.
May not touch: ranks; who measures makes them meet. No device by name.

Events cost time themselves: a pair around one call reads 60 to 270 us too much on NPUs, which for short calls is 19 to
63 %. So calls run back to back between two events, as many as take `least_s` together: then that is a hundredth.
Devices other than CPUs: run on hardware: no.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

EVENTS_LEAST_S = 20e-3
HOST_LEAST_S = 200e-6


class Clock:
    """The clock of a device.

    Attributes:
        by_events: the device's own; else the host's.
        least_s: calls that are timed together should take as long.
    """

    def __init__(self, device: torch.device) -> None:
        self._module: Any = None if device.type == "cpu" else torch.get_device_module(device)
        self.by_events = hasattr(self._module, "Event")
        self.least_s = EVENTS_LEAST_S if self.by_events else HOST_LEAST_S

    def seconds(self, calls: Sequence[Callable[[], object]], meet: Callable[[], object]) -> float:
        """Of all calls together, back to back.

        Args:
            meet: makes ranks begin together, once this one's device has nothing left to do.
        """
        self.wait()
        meet()
        if not self.by_events:
            start = time.perf_counter()
            for call in calls:
                call()
            self.wait()
            return time.perf_counter() - start
        first, last = (self._module.Event(enable_timing=True) for _ in range(2))
        first.record()
        for call in calls:
            call()
        last.record()
        self.wait()
        return float(first.elapsed_time(last)) / 1e3

    def wait(self) -> None:
        """Until the device has done what was queued."""
        if self._module is not None:
            self._module.synchronize()
