"""``kubectl fluence usage``: who used how much, for people, spreadsheets and programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    namespace_option,
    no_headers_option,
    output_option,
)
from fluence_extender.apps.kubectl.tables import TableColumn, print_items

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

HOUR = 3600.0
GIB = 2.0**30
BY = ("queue", "user", "namespace", "account", "day")


@click.command(cls=StateApiCommand)
@click.option(
    "--by", type=click.Choice(BY), default="queue", show_default=True, help="By what use is added up."
)
@click.option(
    "--since",
    default="",
    metavar="TIME",
    help="From which day on (UTC): 2026-11-01, or how long ago: 30d.  [default: the first of this month]",
)
@namespace_option
@output_option("json", "yaml", "csv")
@no_headers_option
@click.pass_obj
def usage(
    client: StateApiClient, by: str, since: str, namespace: str, output: str | None, no_headers: bool
) -> None:
    """Show who used how much: core-hours, memory, GPU-hours, and seconds of virtual devices.

    All namespaces are counted unless -n names one, as far as you may list their pods; your own work always is.
    """
    found = client.items("/v1/usage", by=by, since=since, namespace=namespace)
    if output == "csv":
        _print_csv(by, found, not no_headers)
        return
    print_items(by, found, columns(by), output, not no_headers, none="nothing was used")


def columns(by: str) -> tuple[TableColumn, ...]:
    """Return the columns of use by ``by``."""
    return (
        TableColumn(by.upper(), lambda one: str(one["name"])),
        TableColumn("CORE HOURS", lambda one: f"{_hours(one, 'cpu'):.1f}"),
        TableColumn("GIB HOURS", lambda one: f"{_hours(one, 'memory') / GIB:.1f}"),
        TableColumn("GPU HOURS", lambda one: f"{gpu_seconds(one) / HOUR:.1f}"),
        TableColumn("DEVICE SECONDS", _devices),
    )


def gpu_seconds(one: Item) -> float:
    """Return the use of GPUs of all vendors."""
    return float(sum(seconds for name, seconds in one["seconds"].items() if name.endswith("/gpu")))


def _hours(one: Item, resource: str) -> float:
    return float(one["seconds"].get(resource, 0)) / HOUR


def _devices(one: Item) -> str:
    return ", ".join(
        f"{used['type']} {used['backend']} {used['seconds']}".replace("  ", " ") for used in one["devices"]
    )


def _print_csv(by: str, found: list[Item], headers: bool) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if headers:
        writer.writerow((by, "resource", "backend", "amount", "unit"))
    writer.writerows(row for one in found for row in csv_rows(one))


def csv_rows(one: Item) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each resource that was used: name, resource, backend, amount, unit."""
    for resource, seconds in one["seconds"].items():
        if resource == "memory":
            yield one["name"], resource, "", round(seconds / GIB / HOUR, 4), "GiB-hours"
        else:
            unit = "core-hours" if resource == "cpu" else "hours"
            yield one["name"], resource, "", round(seconds / HOUR, 4), unit
    for used in one["devices"]:
        yield one["name"], used["type"], used["backend"], used["seconds"], "seconds"
