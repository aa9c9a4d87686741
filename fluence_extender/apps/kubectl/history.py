"""``kubectl fluence history``: what ran, when, where, on which devices, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.figures import age, amounts, moment, now, span
from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    all_namespaces_option,
    names_from_service,
    namespace_option,
    no_headers_option,
    output_option,
)
from fluence_extender.apps.kubectl.queue import WORKLOADS
from fluence_extender.apps.kubectl.tables import TableColumn, print_items
from fluence_extender.model.notation import first_few

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

MOST_NODES = 8
"""Names of nodes that are printed."""


@click.command(cls=StateApiCommand)
@click.argument(
    "name",
    required=False,
    metavar="[[KIND/]NAME]",
    shell_complete=names_from_service("/v1/history", "name"),
)
@click.option(
    "--since", default="", metavar="TIME", help="Only what started since: 2026-11-01, or how long ago: 30d."
)
@click.option("--submitted-by", "user", default="", metavar="USER", help="Only what this user submitted.")
@click.option("--queue", default="", metavar="QUEUE", help="Only what was in this queue.")
@click.option("--account", default="", metavar="ACCOUNT", help="Only what names this account.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="How many at most, the newest.",
)
@namespace_option
@all_namespaces_option
@output_option("json", "yaml", "wide", "name")
@no_headers_option
@click.pass_obj
def history(
    client: StateApiClient,
    name: str | None,
    since: str,
    user: str,
    queue: str,
    account: str,
    limit: int,
    namespace: str,
    all_namespaces: bool,
    output: str | None,
    no_headers: bool,
) -> None:
    """List the gangs that ran or run, the newest first, or show all about those of one NAME.

    KIND is that of the object that owned the pods: job, replicaset. Without it, NAME is that of a gang.
    """
    where = client.namespace(namespace, all_namespaces)
    found = client.items(
        "/v1/history",
        namespace=where,
        since=since,
        user=user,
        queue=queue,
        account=account,
        limit=limit,
        **named(name or ""),
    )
    nothing = "nothing ran" + (f" in namespace {where}" if where else "")
    if name is None or output is not None or not found:
        print_items("gang", found, columns(where), output, not no_headers, none=nothing)
        return
    print("\n\n".join("\n".join(description(one)) for one in found))


def named(name: str) -> dict[str, str]:
    """Return by which parameter the service finds the work that a name stands for."""
    kind, slash, rest = name.partition("/")
    if slash and kind not in GANGS:
        return {"workload": f"{kind.lower()}/{rest}"}
    return {"name": rest if slash else name}


GANGS = ("gang", *(kind for kind in WORKLOADS if kind != "job"))
"""The kinds of objects after which gangs are named, and that own other objects than pods."""


def columns(namespace: str) -> tuple[TableColumn, ...]:
    """Return the columns for what ran in one namespace, or in all (``""``)."""
    today = now()
    first = () if namespace else (TableColumn("NAMESPACE", lambda one: str(one["namespace"])),)
    return (
        *first,
        TableColumn("NAME", lambda one: str(one["name"])),
        TableColumn("QUEUE", lambda one: str(one["queue"])),
        TableColumn("USER", lambda one: str(one["user"])),
        TableColumn("ACCOUNT", lambda one: str(one["account"]), wide=True),
        TableColumn("STARTED", lambda one: age(one["started"], today)),
        TableColumn("WAITED", lambda one: span(one["waited"])),
        TableColumn("RAN", lambda one: span(_ran(one).total_seconds())),
        TableColumn("PODS", lambda one: str(one["pods"])),
        TableColumn("REQUESTS", lambda one: amounts(one["requests"]), wide=True),
        TableColumn("DEVICES", _devices),
        TableColumn("ENDED", lambda one: str(one["outcome"] or "runs")),
    )


def description(one: Item) -> Iterator[str]:
    """Yield the lines that say everything about one life of a gang."""
    yield f"{one['namespace']}/{one['name']}: {one['outcome'] or 'runs'}"
    yield f"  submitted by   {one['user']}, in queue {one['queue'] or '-'}" + (
        f", on account {one['account']}" if one["account"] else ""
    )
    yield f"  created        {one['created']}"
    yield f"  started        {one['started']}, after {span(one['waited'])}"
    yield f"  ended          {one['ended'] or '-'}" + f", after {span(_ran(one).total_seconds())}"
    if one["promised"]:
        yield f"  promised       {one['promised']}"
    for moved in one["moves"]:
        yield f"  moved          {moved['at']}: to {moved['start'] or 'an unknown time'}"
    yield f"  ran            {one['pods']} pods on {first_few(one['nodes'], MOST_NODES)}"
    yield f"  requested      {amounts(one['requests']) or '-'}"
    if one["devices"]:
        yield f"  devices        {_devices(one)}"


def _ran(one: Item) -> timedelta:
    return (moment(one["ended"]) if one["ended"] else now()) - moment(one["started"])


def _devices(one: Item) -> str:
    held = (f"{device['count']} {device['type']} of {device['backend'] or '?'}" for device in one["devices"])
    return ", ".join(held)
