"""What of a backend's config is fixed when its group is made. Plain values; a family for each kind of group.

In:  configs. Out: settings of the process, settings of the group, and the algorithm that a group has for a collective.
May not touch: torch, groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ..table import LIBRARY
from ..types import Collective, Config, KnobValue

ANY = "*"
"""The algorithm of a config that runs on a group whatever the group's own algorithm is."""

Settings = tuple[tuple[str, KnobValue], ...]


class Family(Protocol):
    """How configs of one backend fall on groups."""

    @property
    def backend(self) -> str:
        """Whose configs these are."""
        ...

    def process_settings(self, config: Config) -> Settings:
        """Variables that hold for the whole process, and so for every group of a portfolio."""
        ...

    def group_settings(self, config: Config) -> Settings:
        """What is fixed when the group is made, the algorithm apart; sorted."""
        ...

    def algorithm(self, collective: Collective, config: Config) -> str | None:
        """What the group has to have for the collective: None for the library's own choice, `ANY` for anything."""
        ...

    def schedule(self, config: Config) -> Config | None:
        """Our own schedule that runs on the group, without the settings; None where the library's collective does."""
        ...

    def made(self, settings: Settings, algorithms: Mapping[Collective, str]) -> dict[str, KnobValue]:
        """The options that the group is made with.

        Raises:
            ValueError: no group can have these algorithms together.
        """
        ...

    def memory_bytes(self, settings: Settings, process: Settings) -> int:
        """Of the group on each rank."""
        ...

    def exclusive(self, settings: Settings, process: Settings) -> str | None:
        """At most one group of this word may be made; None: any number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobFamily:
    """Groups that differ in some knobs of a config and have no algorithm of their own, such as gloo's.

    Args:
        knobs: names of those that belong to the group.
    """

    backend: str
    knobs: frozenset[str] = frozenset()

    def process_settings(self, config: Config) -> Settings:
        return ()

    def group_settings(self, config: Config) -> Settings:
        return tuple((name, value) for name, value in config.knobs if name in self.knobs)

    def algorithm(self, collective: Collective, config: Config) -> str | None:
        return ANY

    def schedule(self, config: Config) -> Config | None:
        """See `Family`."""
        if config.algorithm == LIBRARY.algorithm:
            return None
        return replace(config, knobs=tuple(knob for knob in config.knobs if knob[0] not in self.knobs))

    def made(self, settings: Settings, algorithms: Mapping[Collective, str]) -> dict[str, KnobValue]:
        return dict(settings)

    def memory_bytes(self, settings: Settings, process: Settings) -> int:
        return 0

    def exclusive(self, settings: Settings, process: Settings) -> str | None:
        return None


GLOO_KNOBS = ("gloo_devices", "gloo_threads")
GLOO = KnobFamily(backend="gloo", knobs=frozenset(GLOO_KNOBS))
"""Groups of torch's gloo: how many listening devices a group has, and how many threads carry out its calls."""
