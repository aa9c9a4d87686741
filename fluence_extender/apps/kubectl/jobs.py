"""``kubectl fluence jobs``: list the gangs, with their states and reasons."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import sleep
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

PERIOD = 2.0
"""Seconds between two requests of a watch."""

MOST_NODES = 3
"""Names of nodes or backends in a cell."""


@click.command(cls=StateApiCommand)
@click.argument("name", required=False, shell_complete=names_from_service("/v1/gangs", "name"))
@output_option(*FORMS)
@namespace_option
@all_namespaces_option
@click.option("-w", "--watch", is_flag=True, help="Go on, with a line for each gang that changes.")
@click.option("--gone", is_flag=True, help="Show gangs whose pods are gone, too, for an hour.")
@no_headers_option
@click.pass_obj
def jobs(
    client: StateApiClient,
    name: str | None,
    output: str | None,
    namespace: str,
    all_namespaces: bool,
    watch: bool,
    gone: bool,
    no_headers: bool,
) -> None:
    """List the gangs; a pod without a gang is a gang of one.

    Shows the state, how many members are placed, the age, the nodes, the backend and the reason.
    """
    namespace = client.namespace(namespace, all_namespaces)

    def look() -> list[Item]:
        found = client.items("/v1/gangs", namespace=namespace, gone=gone and "true")
        return [gang for gang in found if not name or _is_named(gang, name)]

    if watch:
        _watch(look, namespace, output == "wide", not no_headers)
    found = look()
    where = f" in namespace {namespace}" if namespace else ""
    if name and not found:
        raise CommandError(f"no gang {name}{where}; kubectl fluence jobs -A lists all")
    print_items("gang", found, columns(namespace), output, not no_headers, none=f"no gangs{where}")


def columns(namespace: str) -> tuple[TableColumn, ...]:
    """Return the columns for gangs of one namespace, or of all (``""``)."""
    today = now()
    first = () if namespace else (TableColumn("NAMESPACE", lambda gang: str(gang["namespace"])),)
    return (
        *first,
        TableColumn("NAME", lambda gang: str(gang["name"])),
        TableColumn("STATE", lambda gang: str(gang["state"])),
        TableColumn("PLACED", _placed),
        TableColumn("AGE", lambda gang: age(gang["created"], today)),
        TableColumn("NODES", lambda gang: _few(gang, "node")),
        TableColumn("BACKEND", lambda gang: _few(gang, "backend")),
        TableColumn("STARTS IN", lambda gang: until(gang.get("expected_start"), today)),
        TableColumn("KIND", lambda gang: str(gang["convention"]), wide=True),
        TableColumn("QUEUE", lambda gang: str(gang.get("queue") or ""), wide=True),
        TableColumn("POSITION", lambda gang: str(gang.get("position") or ""), wide=True),
        TableColumn("WHY", lambda gang: str(gang["why"]), wide=True),
        TableColumn("REASON", lambda gang: str(gang["reason"])),
    )


def _is_named(gang: Item, name: str) -> bool:
    """Return whether the gang, or the workload that it is a part of, has the name."""
    return bool(gang["name"] == name or gang["name"].startswith(f"{name}/"))


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
    return (gang["state"], gang["reason"], _placed(gang), _few(gang, "node"), _few(gang, "backend"))


def _placed(gang: Item) -> str:
    placed = sum(1 for member in gang["members"] if member["node"])
    return f"{placed}/{max(gang['size'], len(gang['members']))}"


def _few(gang: Item, what: str) -> str:
    names = list(dict.fromkeys(member[what] for member in gang["members"] if member[what]))
    more = len(names) - MOST_NODES
    return ", ".join(names[:MOST_NODES]) + (f" +{more}" if more > 0 else "")
