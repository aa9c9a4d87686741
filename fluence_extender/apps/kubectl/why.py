"""``kubectl fluence why``: why a pod, a Job or a gang is in its state, what it asks for, and what would fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.errors import CommandError, UsageError, Withheld
from fluence_extender.apps.kubectl.figures import age, amount, amounts, now, until
from fluence_extender.apps.kubectl.fits import (
    BUSY,
    SCALABLE,
    amounts_lacking,
    considered,
    fitting,
    free_in_all,
    largest_that_fits,
)
from fluence_extender.apps.kubectl.gang_names import KINDS, kind_and_name, matching, not_placed, tell
from fluence_extender.apps.kubectl.jobs import ALONE, states_text
from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    names_from_service,
    namespace_option,
    output_option,
)
from fluence_extender.apps.kubectl.tables import print_document
from fluence_extender.apps.kubectl.terminal import tell_note
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.notation import first_few

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

MOST_LISTED = 5
ENDED = ("finished", "gone", "requeued")
"""The entries of a history after which members belong to another run."""

BEGUN = ("seen", "whole", "planned")


@click.command(cls=StateApiCommand)
@click.argument(
    "what", metavar="[KIND/]NAME", required=False, shell_complete=names_from_service("/v1/gangs", "name")
)
@click.argument("name", required=False, metavar="")
@output_option("json", "yaml", "wide")
@namespace_option
@click.pass_obj
def why(
    client: StateApiClient, what: str | None, name: str | None, output: str | None, namespace: str
) -> None:
    """Tell why a pod, a Job or a gang is in its state.

    Shows the reason, what it asks for, what is free, what would fit, and what has happened to it so far.

    KIND is pod, job, deployment, statefulset, jobset, leaderworkerset, mpijob, raycluster, rayjob, trainjob or gang.
    Without it, NAME is any of them.
    """
    if not what:
        raise UsageError("why what? Name a pod, a Job or a gang: kubectl fluence why NAME")
    kind, name = kind_and_name(what, name)
    namespace = client.namespace(namespace) or "default"
    found = matching(client, namespace, kind, name)
    story = tell(client, found[0]) if found else None
    if story is None and kind not in ("", *KINDS):
        raise UsageError(f'why knows {", ".join(KINDS)}, not "{kind}"')
    if story is None:
        unknown = f"no pod, Job or gang {name} of scheduler fluence in namespace {namespace}"
        raise CommandError(
            not_placed(client, namespace, kind, name) or f"{unknown}; kubectl fluence jobs lists all"
        )
    if output in ("json", "yaml"):
        print_document(story, output)
        return
    waits = story["state"] == "waiting" and bool(story["asks"])
    nodes = _nodes(client) if waits else []
    devices = client.items("/v1/backends") if waits and any(ask["devices"] for ask in story["asks"]) else []
    for line in (*array_lines(found, name), *explanation(story, nodes, devices, output == "wide")):
        print(line)


def array_lines(found: Sequence[Item], name: str) -> Iterator[str]:
    """Yield what is to be said in front of one gang if the workload ``name`` is several gangs of one pod each."""
    living = [gang for gang in found if gang["state"] != "gone"]
    owner = living[0].get("owner", "") if living else ""
    array = [gang for gang in living if gang["convention"] == ALONE and gang.get("owner") == owner]
    kind, _, owner_name = owner.partition("/")
    if kind == "ReplicaSet":
        # A Deployment's ReplicaSet has a suffix.
        owner_name = name if owner_name.startswith(f"{name}-") else owner_name
    if len(array) < 2 or owner_name != name:
        return
    yield f"{owner}: {len(array)} gangs of one pod: {states_text(array)}"
    label = f"the label {GROUP_LABEL} on its pod template makes them one gang"
    if kind == "Job":
        yield _line(
            "together", f"{label}; so does completionMode: Indexed with completions equal to parallelism"
        )
    else:
        yield _line("together", f"{label}, of the size in the annotation {GROUP_SIZE_ANNOTATION} there")
    yield f"the first of those that are {array[0]['state']}:"


def _nodes(client: StateApiClient) -> list[Item]:
    """Return the nodes, none for a user who may not list them."""
    try:
        return client.items("/v1/nodes")
    except Withheld as error:
        tell_note(f"what is free isn't shown: {error}")
        return []


def explanation(story: Item, nodes: Sequence[Item], devices: Sequence[Item], wide: bool) -> Iterator[str]:
    """Yield the lines of the answer."""
    yield f"gang {story['namespace']}/{story['name']}: {story['state']}"
    if story["reason"]:
        yield _line("reason", story["reason"])
    yield from (_line("note", note) for note in story.get("notes", ()))
    if story.get("position"):
        yield _line("queue", f"{story.get('queue') or 'none'}, place {story['position']} in line")
    if times := story.get("preemptions"):
        often = "once" if times == 1 else f"{times} times"
        yield _line("preempted", f"{often}, last at {story['preempted']}")
    if story.get("expected_start"):
        yield _line(
            "starts",
            f"in {until(story['expected_start'], now())}, as far as running pods say how long they run",
        )
    yield from (_line("asks", _request_text(ask)) for ask in story["asks"])
    placed = Counter(member["node"] for member in story["members"] if member["node"])
    if placed:
        yield _line("placed", _listed([f"{node} ({count})" for node, count in placed.items()], wide))
    backends = sorted({member["backend"] for member in story["members"] if member["backend"]})
    if backends:
        yield _line("backend", ", ".join(backends))
    if quantum := story.get("quantum"):
        yield _line("task", task_text(quantum))
    if nodes:
        # Members that ask for the same resources have the same line: it is printed once.
        yield from dict.fromkeys(line for ask in story["asks"] for line in _free(ask, nodes))
        counted, busy = considered(story, nodes), story["why"] == BUSY
        lacking = amounts_lacking(story, counted)
        for ask in story["asks"] if lacking else ():
            yield from _capacity(ask, counted, lacking, wide, busy)
    if devices:
        yield from _devices(story["asks"], devices)
    yield from _history(story, wide)


def task_text(quantum: Item) -> str:
    """Return what is known of the task of a quantum job, and which gang is the other part of the job."""
    text = ": ".join(filter(None, (quantum["task"], quantum["status"])))
    partner = {"producer": "its consumers are", "consumer": "its producer is"}.get(quantum["role"], "")
    return f"{text}; {partner} gang {quantum['partner']}" if partner else text


def _request_text(ask: Item) -> str:
    count = ask["members"]
    text = f"{count} {'member' if count == 1 else 'members'} of {amounts(ask['requests'], 'pods') or 'a pod slot only'}"
    if ask["devices"]:
        text += ", " + ", ".join(f"{count} {kind}" for kind, count in ask["devices"].items())
    if ask["requires"]:
        text += " (" + ", ".join(f"{key}={value}" for key, value in ask["requires"].items()) + ")"
    return text


def _free(ask: Item, nodes: Sequence[Item]) -> Iterator[str]:
    """Yield how much is free of the resources that are asked for."""
    names = [name for name in ask["requests"] if name != "pods"]
    closed = Counter(problem for node in nodes for problem in node["problems"])
    usable = [node for node in nodes if node["schedulable"]]
    reasons = "".join(f"; {count} {problem}" for problem, count in closed.most_common(MOST_LISTED))
    free = amounts(free_in_all(nodes, names)) or "pod slots"
    # A node that has nothing left of one of these resources takes none of the members.
    full = sum(1 for node in usable if any(node["free"].get(name, 0) <= 0 for name in names))
    reasons += f"; {full} full" if full else ""
    yield _line("free", f"{free} on {len(usable) - full} of {len(nodes)} nodes{reasons}")


def _capacity(
    ask: Item, nodes: Sequence[Item], lacking: Sequence[str], wide: bool, busy: bool
) -> Iterator[str]:
    """Yield where members fit now, and the largest request for what is ``lacking`` with which all would fit.

    Of a gang that isn't ``busy`` nothing fits now: the request is the largest with which it fits empty nodes.
    """
    requests, members = ask["requests"], ask["members"]
    found = fitting(nodes, requests)
    total = sum(found.values())
    if busy:
        where = _listed([f"{name} ({min(count, members)})" for name, count in found.items()], wide)
        counted = f"{min(total, members)} of {members} by these amounts"
        yield _line("fits now", counted + (f": {where}" if where else ""))
    if total >= members:
        return
    on_empty = "" if busy else " if nothing else ran"
    for name in SCALABLE:
        if name in lacking and requests.get(name, 0) > 0:
            most = largest_that_fits(nodes, requests, members, name)
            if most is not None:
                yield _line("would fit", f"{members} with at most {amount(name, most)} {name} each{on_empty}")


def _devices(asks: Sequence[Item], devices: Sequence[Item]) -> Iterator[str]:
    kinds = {kind: ask["requires"] for ask in asks for kind in ask["devices"]}
    for kind, requires in kinds.items():
        of_type = [device for device in devices if device["type"] == kind]
        if not of_type:
            yield _line(kind, "no device of this type is configured (ConfigMap fluence-resources)")
        for device in of_type:
            yield _line(kind, _device(device, requires))


def _device(device: Item, requires: Item) -> str:
    text = f"{device['backend']}: {device['free']} of {device['total']} free"
    have = {**device["attributes"], "backend": device["backend"]}
    missed = [f"{key}={value}" for key, value in requires.items() if have.get(key) != value]
    if missed:
        text += f"; isn't {', '.join(missed)}"
    holders = list(dict.fromkeys(f"{one['namespace']}/{one['pod']}" for one in device["holders"]))
    if device["hidden"]:
        holders.append(f"{device['hidden']} of other namespaces")
    if holders:
        text += f"; held by {_listed(holders, False)}"
    return text + "".join(f"; {problem}" for problem in device["problems"])


def _history(story: Item, wide: bool) -> Iterator[str]:
    if not story["history"]:
        return
    today = now()
    yield "history"
    ended = False
    for entry in story["history"]:
        if ended and entry["what"] == "seen":
            yield "  submitted again"
        ended = entry["what"] in ENDED or (ended and entry["what"] not in BEGUN)
        ago = age(entry["at"], today)
        times = f" ({entry['count']} times)" if entry["count"] > 1 else ""
        text = " ".join(part for part in (entry["what"], entry["pod"]) if part) + times
        detail = f": {entry['detail']}" if entry["detail"] else ""
        at = f"{entry['at']}  " if wide else ""
        yield f"  {at}{ago + ' ago':<8}  {text}{detail}"
    if story["forgotten"]:
        yield f"  ({story['forgotten']} entries in between are forgotten)"


def _listed(names: list[str], wide: bool) -> str:
    return first_few(names, len(names) if wide else MOST_LISTED)


def _line(heading: str, text: str) -> str:
    return f"  {heading:<10}{text}"
