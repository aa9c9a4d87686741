"""``kubectl fluence why``: why a pod, a Job or a gang is in its state, what it asks for, and what would fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.errors import CommandError, NotFound, UsageError, Withheld
from fluence_extender.apps.kubectl.figures import age, amount, amounts, now, until
from fluence_extender.apps.kubectl.fits import (
    SCALABLE,
    amounts_lacking,
    fitting,
    free_in_all,
    largest_that_fits,
)
from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    names_from_service,
    namespace_option,
    output_option,
)
from fluence_extender.apps.kubectl.tables import print_document
from fluence_extender.apps.kubectl.terminal import tell_note
from fluence_extender.model.notation import first_few

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

KINDS = ("pod", "job", "deployment", "statefulset", "gang")
_SHORT = {"po": "pod", "deploy": "deployment", "sts": "statefulset"}
MOST_LISTED = 5


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

    KIND is pod, job, deployment, statefulset or gang. Without it, NAME is any of them.
    """
    if not what:
        raise UsageError("why what? Name a pod, a Job or a gang: kubectl fluence why NAME")
    kind, name = _kind_and_name(what, name)
    namespace = client.namespace(namespace)
    if not namespace:
        raise UsageError("why asks about one namespace; name it with -n NAMESPACE")
    story = find(client, namespace, kind, name)
    if story is None and kind not in ("", *KINDS):
        raise UsageError(f'why knows {", ".join(KINDS)}, not "{kind}"')
    if story is None:
        raise CommandError(
            f"no pod, Job or gang {name} of scheduler fluence in namespace {namespace}; kubectl fluence jobs lists all"
        )
    if output in ("json", "yaml"):
        print_document(story, output)
        return
    waits = story["state"] == "waiting" and bool(story["asks"])
    nodes = _nodes(client) if waits else []
    devices = client.items("/v1/backends") if waits and any(ask["devices"] for ask in story["asks"]) else []
    for line in explanation(story, nodes, devices, output == "wide"):
        print(line)


def find(client: StateApiClient, namespace: str, kind: str, name: str) -> Item | None:
    """Return the gang with this name, or with a member of this name, or of the Job of this name.

    Of several, a gang that exists comes before one that is gone; then a gang with exactly this name, then one that
    waits. A gang's own name may have the form ``kind/name``: that of a part of a larger gang does.
    """
    gangs = client.items("/v1/gangs", namespace=namespace, gone="true")
    matching = [gang for gang in gangs if matches(gang, kind, name)]
    if not matching:
        return None
    gang = min(
        matching, key=lambda one: (one["state"] == "gone", one["name"] != name, one["state"] != "waiting")
    )
    path = f"/v1/gangs/{namespace}/{gang['name']}"
    try:
        found: Item = client.document(path, convention=gang["convention"])
    except NotFound:
        return None
    return found


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
    if story.get("position"):
        yield _line("queue", f"{story.get('queue') or 'none'}, place {story['position']} in line")
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
    if nodes:
        # Members that ask for the same resources have the same line: it is printed once.
        yield from dict.fromkeys(line for ask in story["asks"] for line in _free(ask, nodes))
        lacking = amounts_lacking(story, nodes)
        for ask in story["asks"] if lacking else ():
            yield from _capacity(ask, nodes, lacking, wide)
    if devices:
        yield from _devices(story["asks"], devices)
    yield from _history(story, wide)


def _kind_and_name(what: str, name: str | None) -> tuple[str, str]:
    """Return the kind, empty if none is given, and the name: of ``KIND NAME``, ``KIND/NAME`` or ``NAME``."""
    kind, slash, rest = what.partition("/")
    if name is not None:
        kind, slash, rest = what, "/", name
    if not slash:
        return "", what
    kind = kind.lower()
    # As in kubectl: the plural, the short name, and any of them with its API group.
    plain = kind.removesuffix(".apps").removesuffix(".batch")
    plain = _SHORT.get(plain, plain.removesuffix("s"))
    return plain if plain in KINDS else kind, rest


def matches(gang: Item, kind: str, name: str) -> bool:
    """Return whether the gang, one of its pods or their workload has this name; ``kind`` is empty for any of them."""
    if kind not in ("", *KINDS):
        return bool(gang["name"] == f"{kind}/{name}")
    if kind in ("", "gang") and gang["name"] == name:
        return True
    pods = [member["pod"] for member in gang["members"]] + gang.get("former", [])
    if kind in ("", "pod") and name in pods:
        return True
    # The names of a workload's pods begin with its own. The gang may be named after the workload, a label or a pod.
    named_after = gang["name"] == name or any(pod.startswith(f"{name}-") for pod in pods)
    return kind not in ("pod", "gang") and named_after


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
    yield _line("free", f"{free} on {len(usable)} of {len(nodes)} nodes{reasons}")


def _capacity(ask: Item, nodes: Sequence[Item], lacking: Sequence[str], wide: bool) -> Iterator[str]:
    """Yield where members fit now, and the largest request for what is ``lacking`` with which all would fit."""
    requests, members = ask["requests"], ask["members"]
    found = fitting(nodes, requests)
    total = sum(found.values())
    where = _listed([f"{name} ({count})" for name, count in found.items()], wide)
    yield _line(
        "fits now", f"{min(total, members)} of {members} by these amounts" + (f": {where}" if where else "")
    )
    if total >= members:
        return
    for name in SCALABLE:
        if name in lacking and requests.get(name, 0) > 0:
            most = largest_that_fits(nodes, requests, members, name)
            if most is not None:
                yield _line("would fit", f"{members} with at most {amount(name, most)} {name} each")


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
    for entry in story["history"]:
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
