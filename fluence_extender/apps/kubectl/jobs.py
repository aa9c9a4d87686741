"""``kubectl fluence jobs``: list the gangs, with their states and reasons."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.figures import age, now, until
from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    all_namespaces_option,
    names_from_service,
    namespace_option,
    no_headers_option,
    output_option,
)
from fluence_extender.apps.kubectl.tables import FORMS, TableColumn, print_items, table
from fluence_extender.model.notation import first_few_in_a_cell

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

PERIOD = 2.0
"""Seconds between two requests of a watch."""

MOST_NODES = 3
"""Names of nodes or backends in a cell."""

MOST_REASONS = 2
"""Reasons in the cell of an array."""

PATIENCE = 30.0
"""Seconds for the list of pods with some labels."""

ALONE = "pod"
"""The convention of a gang that is a pod on its own."""

STATES = ("waiting", "planned", "committed", "bound", "finished", "gone")

ORDERS: Mapping[str, Callable[[Item], Any]] = {
    "name": lambda gang: (gang["namespace"], gang["name"]),
    "age": lambda gang: gang["created"] or "",
    "state": lambda gang: STATES.index(gang["state"]),
    "position": lambda gang: gang.get("position") or float("inf"),
    "size": lambda gang: -gang["size"],
}
"""What ``--sort-by`` takes: the oldest, the first in line and the largest come first."""


@click.command(cls=StateApiCommand)
@click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=names_from_service("/v1/gangs", "name")
)
@output_option(*FORMS)
@namespace_option
@all_namespaces_option
@click.option(
    "-l", "--selector", metavar="LABELS", default="", help="Only gangs with pods that have these labels."
)
@click.option(
    "--state", type=click.Choice(STATES), multiple=True, help="Only gangs in this state; may be repeated."
)
@click.option("--sort-by", type=click.Choice(tuple(ORDERS)), help="Order of the gangs.  [default: name]")
@click.option("-w", "--watch", is_flag=True, help="Go on, with a line for each gang that changes.")
@click.option("--gone", is_flag=True, help="Show gangs whose pods are gone, too, for an hour.")
@no_headers_option
@click.pass_obj
def jobs(
    client: StateApiClient,
    names: Sequence[str],
    output: str | None,
    namespace: str,
    all_namespaces: bool,
    selector: str,
    state: Sequence[str],
    sort_by: str | None,
    watch: bool,
    gone: bool,
    no_headers: bool,
) -> None:
    """List the gangs; a pod without a gang is a gang of one.

    Shows the state, how many members are placed, the age, the nodes, the backend and the reason. Gangs of one that
    belong to one Job are a single row. A NAME is that of a gang or of its Job, whose gangs then have a row each.
    """
    namespace = client.namespace(namespace, all_namespaces)

    def look() -> list[Item]:
        found = client.items("/v1/gangs", namespace=namespace, gone=(gone or "gone" in state) and "true")
        pods = _selected(client, namespace, selector) if selector else None
        kept = [
            gang
            for gang in found
            if (not names or any(_is_named(gang, name) for name in names))
            and (not state or gang["state"] in state)
            and (pods is None or any((gang["namespace"], one["pod"]) in pods for one in gang["members"]))
        ]
        return sorted(kept, key=ORDERS[sort_by]) if sort_by else kept

    if watch:
        _watch(look, namespace, output == "wide", not no_headers)
    found = look()
    where = f" in namespace {namespace}" if namespace else ""
    for name in names:
        if not any(_is_named(gang, name) for gang in found):
            such = "such " if selector or state else ""
            raise CommandError(f"no {such}gang {name}{where}; kubectl fluence jobs -A lists all")
    rows = found if names or output not in (None, "wide") else in_arrays(found)
    print_items("gang", rows, columns(namespace), output, not no_headers, none=f"no gangs{where}")


def _selected(client: StateApiClient, namespace: str, selector: str) -> set[tuple[str, str]]:
    """Return namespace and name of the pods with these labels, as the API server reads the selector."""
    from fluence_extender.apps.kubectl.program import kubectl_output

    form = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}"
    where = f"--namespace={namespace}" if namespace else "--all-namespaces"
    words = ["get", "pods", f"--selector={selector}", where, "-o", form, *client.connection]
    named = (one.partition("/") for one in kubectl_output(words, PATIENCE).decode().split())
    return {(place, name) for place, _, name in named}


def in_arrays(gangs: Sequence[Item]) -> list[Item]:
    """Return the gangs, with those of one pod each that have the same owner as one item, at the place of the first."""
    arrays: dict[object, list[Item]] = {}
    for gang in gangs:
        owner = gang.get("owner") if gang["convention"] == ALONE else ""
        key = (gang["namespace"], owner) if owner else (gang["namespace"], gang["name"], gang["convention"])
        arrays.setdefault(key, []).append(gang)
    return [some[0] if len(some) == 1 else _array(some) for some in arrays.values()]


def _array(gangs: Sequence[Item]) -> Item:
    """Return the gangs of an array as one item, with totals."""
    waiting = Counter(gang["reason"] for gang in gangs if gang["state"] == "waiting")
    reasons = [f"{count} times {text}" for text, count in waiting.most_common(MOST_REASONS)]
    more = len(waiting) - MOST_REASONS
    whys = {gang["why"] for gang in gangs if gang["why"]}
    starts = [gang["expected_start"] for gang in gangs if gang.get("expected_start")]
    users = {str(gang.get("user") or "") for gang in gangs}
    return {
        **gangs[0],
        "user": ", ".join(sorted(users)),
        "name": f"{gangs[0]['owner'].partition('/')[2]} ({len(gangs)} gangs)",
        "state": states_text(gangs),
        "size": sum(gang["size"] for gang in gangs),
        "created": min((gang["created"] for gang in gangs if gang["created"]), default=None),
        "members": [member for gang in gangs for member in gang["members"]],
        "reason": "; ".join(reasons) + (f"; {more} more reasons" if more > 0 else ""),
        "why": ", ".join(sorted(whys)),
        "expected_start": min(starts, default=None),
        "position": min((gang["position"] for gang in gangs if gang.get("position")), default=None),
    }


def states_text(gangs: Sequence[Item]) -> str:
    """Return how many of the gangs are in each state: ``4 bound, 8 waiting``."""
    counts = Counter(gang["state"] for gang in gangs)
    running_first = sorted(counts, key=lambda state: (state != "bound", STATES.index(state)))
    return ", ".join(f"{counts[state]} {state}" for state in running_first)


def columns(namespace: str) -> tuple[TableColumn, ...]:
    """Return the columns for gangs of one namespace, or of all (``""``)."""
    today = now()
    first = () if namespace else (TableColumn("NAMESPACE", lambda gang: str(gang["namespace"])),)
    return (
        *first,
        TableColumn("NAME", lambda gang: str(gang["name"])),
        TableColumn("STATE", lambda gang: str(gang["state"])),
        TableColumn("PLACED", placed_of),
        TableColumn("AGE", lambda gang: age(gang["created"], today)),
        TableColumn("NODES", lambda gang: _first_names(gang, "node")),
        TableColumn("BACKEND", lambda gang: _first_names(gang, "backend")),
        TableColumn("STARTS IN", lambda gang: until(gang.get("expected_start"), today)),
        TableColumn("KIND", lambda gang: str(gang["convention"]), wide=True),
        TableColumn("USER", lambda gang: str(gang.get("user") or ""), wide=True),
        TableColumn("QUEUE", lambda gang: str(gang.get("queue") or ""), wide=True),
        TableColumn("POSITION", lambda gang: str(gang.get("position") or ""), wide=True),
        TableColumn("WHY", lambda gang: str(gang["why"]), wide=True),
        TableColumn("REASON", lambda gang: str(gang["reason"])),
    )


def _is_named(gang: Item, name: str) -> bool:
    """Return whether the gang, or the workload that it is a part of, has the name."""
    owner = str(gang.get("owner", ""))
    return bool(
        gang["name"] == name
        or gang["name"].startswith(f"{name}/")
        or owner.partition("/")[2] == name
        or owner.lower() == name.lower()
    )


def _watch(look: Callable[[], list[Item]], namespace: str, wide: bool, headers: bool) -> None:
    """Print the table, and then a line for each gang that changes, until interrupted."""
    shown: dict[tuple[str, str, str], tuple[str, ...]] = {}
    widths: list[int] = []
    while True:
        found = {(gang["namespace"], gang["name"], gang["convention"]): gang for gang in look()}
        changed = [gang for key, gang in found.items() if shown.get(key) != _watched(gang)]
        ended = [key for key in shown if key not in found]
        if changed:
            for line in table(columns(namespace), changed, wide, headers, widths):
                print(line)
            headers = False
        for _, name, _ in ended:
            print(f"{name} is gone")
        sys.stdout.flush()
        shown = {key: _watched(gang) for key, gang in found.items()}
        sleep(PERIOD)


def _watched(gang: Item) -> tuple[str, ...]:
    """Return what a watch compares: a gang is printed again when this changes. Its age doesn't count."""
    return (
        gang["state"],
        gang["reason"],
        placed_of(gang),
        _first_names(gang, "node"),
        _first_names(gang, "backend"),
    )


def placed_of(gang: Item) -> str:
    """Return how many members have places or have succeeded, of how many; those that have failed don't count."""
    members = [member for member in present_run(gang["members"]) if not member.get("failed")]
    placed = sum(1 for member in members if member["node"])
    return f"{placed}/{max(gang['size'], len(members))}"


def present_run(members: Sequence[Item]) -> list[Item]:
    """Return the members without those of earlier runs: when a gang is submitted again, they may still be there."""
    runs = {member.get("run", "") for member in members if not member.get("ended")}
    return [member for member in members if not runs or member.get("run", "") in runs]


def _first_names(gang: Item, field: str) -> str:
    names = list(dict.fromkeys(member[field] for member in present_run(gang["members"]) if member[field]))
    return first_few_in_a_cell(names, MOST_NODES)
