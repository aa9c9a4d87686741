"""``kubectl fluence backends``: list the virtual devices, what is free of them, and which pods hold the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.errors import CommandError, nearest
from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    names_from_service,
    no_headers_option,
    output_option,
)
from fluence_extender.apps.kubectl.tables import FORMS, TableColumn, print_items

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

COUNTS = ("total", "held", "free", "hidden")
"""What is added up over the devices of one type; ``hidden`` are the pods of other namespaces that hold some."""


@click.command(cls=StateApiCommand)
@click.argument("name", required=False, shell_complete=names_from_service("/v1/backends", "backend"))
@output_option(*FORMS)
@no_headers_option
@click.pass_obj
def backends(client: StateApiClient, name: str | None, output: str | None, no_headers: bool) -> None:
    """List the virtual devices: type, units, attributes, which pods hold them, why one can't be used."""
    found = client.items("/v1/backends", backend=name)
    if name and not found:
        raise CommandError(f"no backend {name}; {_nearest(client, name)}")
    if output == "name":
        for backend in dict.fromkeys(device["backend"] for device in found):
            print(f"backend/{backend}")
        return
    none = "no backends are configured (ConfigMap fluence-resources)"
    rows = found if output else together(found)
    print_items("backend", rows, COLUMNS, output, not no_headers, none)


def _nearest(client: StateApiClient, name: str) -> str:
    """Return advice for the name of a backend that doesn't exist."""
    backends = {device["backend"] for device in client.items("/v1/backends")}
    return nearest(name, backends, "kubectl fluence backends lists all")


def together(devices: Sequence[Item]) -> list[Item]:
    """Return one row for each backend. Its types are counted apart: a pod may ask for any of them."""
    rows: dict[str, Item] = {}
    for device in devices:
        row = rows.setdefault(device["backend"], {**device, "types": {}, "holders": [], "problems": []})
        counts = row["types"].setdefault(device["type"], dict.fromkeys(COUNTS, 0))
        for count in COUNTS:
            counts[count] += device[count]
        row["holders"] += [one for one in device["holders"] if one not in row["holders"]]
        # A pod that holds a device of one type may hold devices of the other types with it.
        row["hidden"] = max(each["hidden"] for each in row["types"].values())
        row["problems"] = list(dict.fromkeys([*row["problems"], *device["problems"]]))
    return list(rows.values())


def _counted(count: str) -> Callable[[Item], str]:
    """Return the cell of a count, for each type of the backend in turn."""

    def cell(device: Item) -> str:
        types = device.get("types") or {device["type"]: device}
        return ", ".join(str(counts[count]) for counts in types.values())

    return cell


def _holders(device: Item) -> str:
    named = dict.fromkeys(f"{one['namespace']}/{one['pod']}" for one in device["holders"])
    return ", ".join([*named, *([f"{device['hidden']} of other namespaces"] if device["hidden"] else [])])


def _attributes(device: Item) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(device["attributes"].items()))


COLUMNS = (
    TableColumn("BACKEND", lambda device: str(device["backend"])),
    TableColumn("TYPE", lambda device: ", ".join(device.get("types") or (device["type"],))),
    TableColumn("TOTAL", _counted("total")),
    TableColumn("HELD", _counted("held")),
    TableColumn("FREE", _counted("free")),
    TableColumn("NODE", lambda device: str(device["node"])),
    TableColumn("PATH", lambda device: str(device["path"]), wide=True),
    TableColumn("ATTRIBUTES", _attributes),
    TableColumn("HELD BY", _holders),
    TableColumn("PROBLEM", lambda device: "; ".join(device["problems"])),
)
