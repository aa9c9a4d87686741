"""One state of the cluster, as the lists of ``/v1`` show it, and what changed from one to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fluence_extender.dashboard.service import Item, Trouble

LISTS = {
    "gangs": "/v1/gangs",
    "queues": "/v1/queues",
    "line": "/v1/queue",
    "reservations": "/v1/reservations",
    "nodes": "/v1/nodes",
    "devices": "/v1/backends",
}
"""The lists that a state has, and their paths."""

REMEMBERED = 200
"""Changes."""


@dataclass(frozen=True, slots=True)
class GangChange:
    """A gang has another state than before; "" stands for none."""

    at: datetime
    namespace: str
    name: str
    convention: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known at one time. ``version`` grows with each change; in version 0 nothing has been read yet.

    ``trouble`` says why the newest reading failed; the lists are then older, or empty. ``withheld`` has, for lists that
    the caller may not read, the right that is missing.
    """

    version: int
    at: datetime
    gangs: Sequence[Item] = ()
    queues: Sequence[Item] = ()
    line: Sequence[Item] = ()
    reservations: Sequence[Item] = ()
    nodes: Sequence[Item] = ()
    devices: Sequence[Item] = ()
    leading: bool = True
    hidden: int = 0
    withheld: Mapping[str, str] = field(default_factory=dict)
    trouble: Trouble | None = None
    changes: Sequence[GangChange] = ()


def gang_key(gang: Item) -> tuple[str, str, str]:
    """Return what tells a gang from all others that are listed."""
    return gang["namespace"], gang["name"], gang["convention"]


def changes_between(before: Sequence[Item], after: Sequence[Item], at: datetime) -> list[GangChange]:
    """Return the gangs whose state or kind of reason changed, the newest first."""
    both = {id(gang) for gang in before} & {id(gang) for gang in after}
    old = {gang_key(gang): gang for gang in before if id(gang) not in both}
    new = {gang_key(gang): gang for gang in after if id(gang) not in both}
    found = [
        GangChange(at, *key, old[key]["state"] if key in old else "", gang["state"], gang["reason"])
        for key, gang in new.items()
        if key not in old or (old[key]["state"], old[key]["why"]) != (gang["state"], gang["why"])
    ]
    found += [GangChange(at, *key, gang["state"], "", "") for key, gang in old.items() if key not in new]
    return found
