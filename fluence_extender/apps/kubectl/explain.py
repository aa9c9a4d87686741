"""``kubectl fluence explain``: every label, annotation, gate and resource name of ours, and what it does.

The explanations are in ``keys.json``. Each has the full ``key`` (``*`` stands for the rest of a name), its ``kind``,
the objects that it is ``on``, the party that it is written ``by``, the explanation as ``text``, and an ``example``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.errors import CommandError, nearest
from fluence_extender.apps.kubectl.options import Command, no_headers_option, output_option
from fluence_extender.apps.kubectl.tables import FORMS, TableColumn, print_items

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fluence_extender.apps.kubectl.state_api import Item

KEYS_FILE = Path(__file__).with_name("keys.json")


@dataclass(frozen=True, slots=True)
class Key:
    """One key, as ``keys.json`` explains it."""

    key: str
    kind: str
    on: str
    by: str
    text: str
    example: str

    @property
    def short(self) -> str:
        """The key without its domain."""
        return self.key.partition("/")[2].rstrip("*") or self.key


@cache
def known_keys() -> tuple[Key, ...]:
    """Return all keys of ours."""
    return tuple(Key(**entry) for entry in json.loads(KEYS_FILE.read_text("utf-8")))


def _completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(one.short, help=f"{one.kind} on {one.on}")
        for one in known_keys()
        if "*" not in one.key and one.short.startswith(incomplete)
    ]


@click.command(cls=Command)
@click.argument("key", required=False, shell_complete=_completed)
@output_option(*FORMS)
@no_headers_option
def explain(key: str | None, output: str | None, no_headers: bool) -> None:
    """Explain a label, annotation, gate or resource name of ours, or list them all.

    KEY may be given without its domain: kubectl fluence explain group-size
    """
    if key is None or output:
        found = known_keys() if key is None else (look_up(key),)
        print_items("key", [_item(one) for one in found], COLUMNS, output, not no_headers)
        return
    import textwrap

    one = look_up(key)
    print(f"{one.key}\n")
    print(f"  {one.kind} on {one.on}, written by {one.by}\n")
    print(textwrap.fill(one.text, 100, initial_indent="  ", subsequent_indent="  "))
    print(f"\n  {one.example}")


def look_up(text: str) -> Key:
    """Return the key that ``text`` names, in full or without its domain. Raise `CommandError` if there is none."""
    wanted = text.strip().rstrip(":")
    for one in known_keys():
        if wanted in (one.key, one.short):
            return one
    for one in known_keys():
        if one.key.endswith("*") and (
            wanted.startswith(one.key[:-1])
            or (one.short and "/" not in wanted and wanted.startswith(one.short))
        ):
            return one
    known = (one.short for one in known_keys())
    hint = nearest(wanted.rpartition("/")[2], known, "kubectl fluence explain lists all")
    raise CommandError(f'"{text}" is no key of ours; {hint}')


def _item(one: Key) -> Item:
    fields = asdict(one)
    return {"name": fields.pop("key"), **fields}


COLUMNS = (
    TableColumn("KEY", lambda one: str(one["name"])),
    TableColumn("KIND", lambda one: str(one["kind"])),
    TableColumn("ON", lambda one: str(one["on"])),
    TableColumn("WRITTEN BY", lambda one: str(one["by"])),
    TableColumn("EXAMPLE", lambda one: str(one["example"]), wide=True),
)
