"""The search over everything: gangs and their pods, nodes, devices, queues and users by a part of their name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links

MOST_HITS = 50
"""Hits that are shown of each kind."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was found."""

    kind: str
    name: str
    link: str
    detail: str


def search(state: ClusterState, text: str) -> list[Hit]:
    """Return what has ``text`` in its name, in upper or lower case; names that begin with it come first."""
    wanted = text.strip().casefold()
    if not wanted:
        return []
    finders = (_gangs, _queues, _nodes, _devices)
    found = [hit for finder in finders for hit in islice(finder(state, wanted), MOST_HITS)]
    return sorted(found, key=lambda hit: not hit.name.casefold().rpartition("/")[2].startswith(wanted))


def _gangs(state: ClusterState, wanted: str) -> Iterator[Hit]:
    for gang in state.gangs:
        name = f"{gang['namespace']}/{gang['name']}"
        pods = [member["pod"] for member in gang["members"] if wanted in member["pod"].casefold()]
        if wanted not in name.casefold() and not pods:
            continue
        link = links.gang(gang["namespace"], gang["name"], gang["convention"])
        if wanted in name.casefold():
            yield Hit("gang", name, link, gang["state"])
        else:
            yield Hit("pod", f"{gang['namespace']}/{pods[0]}", link, f"gang {gang['name']}, {gang['state']}")


def _queues(state: ClusterState, wanted: str) -> Iterator[Hit]:
    for queue in state.queues:
        if wanted in queue["name"].casefold():
            detail = f"{queue['waiting']} waiting, {queue['running']} running"
            yield Hit("queue", queue["name"], links.queue(queue["name"]), detail)
    users = dict.fromkeys(entry["user"] for entry in state.line if wanted in entry["user"].casefold())
    for user in users:
        yield Hit("user", user, f"{links.QUEUE}{_text(user)}", "has gangs in line")


def _nodes(state: ClusterState, wanted: str) -> Iterator[Hit]:
    for node in state.nodes:
        if wanted in node["name"].casefold() or any(wanted in v.casefold() for v in node["levels"].values()):
            detail = " / ".join(node["levels"].values()) or "; ".join(node["problems"])
            yield Hit("node", node["name"], links.node(node["name"]), detail)


def _devices(state: ClusterState, wanted: str) -> Iterator[Hit]:
    for device in state.devices:
        if wanted in device["path"].casefold() or wanted in device["type"].casefold():
            detail = f"{device['type']}, {device['free']} of {device['total']} free"
            yield Hit("device", device["path"], links.devices(backend=device["backend"]), detail)


def _text(text: str) -> str:
    return links.with_filters("", {"text": text})
