"""What one probe adds to a host that is already known: devices, links, limits, and what it could not see. A value.

A vendor probe is a module with two functions. ``collect(run)`` runs the vendor's programs through a ``CommandRunner``
and keeps what they printed; ``parse(recording, host, nodes, cpus_of_node)`` is pure and returns ``Findings``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..devices import Device
from ..graph import Topology
from ..links import Link, SharedResource

CommandRunner = Callable[[Sequence[str]], str]
"""Runs a program without a shell, and returns what it printed. One that could not run, or failed, returns ``!absent``,
``!denied``, ``!timeout`` or ``!exit N: first line of its stderr``; it never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Parts of a topology, all of them possibly empty.

    Args:
        devices: inside the host or inside each other, parents first.
        links: between devices here or in the host; a later one replaces an earlier one between the same two.
        shared: limits over several links.
        unseen: what could not be seen, in words for people.
        contradictions: where two sources disagree, in words for people.
    """

    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    shared: tuple[SharedResource, ...] = ()
    unseen: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()

    def added_to(self, topology: Topology) -> Topology:
        """The topology with these findings in it.

        Raises:
            ValueError: an id that is already taken, or an end that does not exist: the probe and the host disagree.
        """
        return replace(
            topology,
            devices=(*topology.devices, *self.devices),
            links={**topology.links, **{(link.src, link.dst): link for link in self.links}},
            shared=(*topology.shared, *self.shared),
            unseen=(*topology.unseen, *self.unseen),
            contradictions=(*topology.contradictions, *self.contradictions),
        )
