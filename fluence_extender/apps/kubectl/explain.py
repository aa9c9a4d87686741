"""``kubectl fluence explain``: every label, annotation, gate and resource name of ours, and every reason to wait.

The explanations of keys are in ``keys.json``. Each has the full ``key`` (``*`` stands for the rest of a name), its
``kind``, the objects that it is ``on``, the party that it is written ``by``, the explanation as ``text``, and an
``example``. Those of reasons are in ``reasons.json``, each with its ``text`` and ``advice``.
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
REASONS_FILE = Path(__file__).with_name("reasons.json")


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


@dataclass(frozen=True, slots=True)
class ExplainedReason:
    """One reason why a gang waits, as ``reasons.json`` explains it: what it means, and what to do."""

    reason: str
    text: str
    advice: str


@cache
def known_reasons() -> tuple[ExplainedReason, ...]:
    """Return all reasons."""
    return tuple(ExplainedReason(**entry) for entry in json.loads(REASONS_FILE.read_text("utf-8")))


def _completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(one.short, help=f"{one.kind} on {one.on}")
        for one in known_keys()
        if "*" not in one.key and one.short.startswith(incomplete)
    ] + [
        CompletionItem(one.reason, help="why a gang waits")
        for one in known_reasons()
        if one.reason.startswith(incomplete)
    ]


@click.command(cls=Command)
@click.argument("key", required=False, shell_complete=_completed)
@output_option(*FORMS)
@no_headers_option
def explain(key: str | None, output: str | None, no_headers: bool) -> None:
    """Explain a label, annotation, gate or resource name of ours, or a reason why gangs wait. Without KEY, list all.

    KEY may be given without its domain: kubectl fluence explain group-size
    """
    if key is None or output:
        found: list[Key | ExplainedReason] = [*known_keys(), *known_reasons()]
        if key is not None:
            found = [look_up(key)]
        print_items("key", [_item(one) for one in found], COLUMNS, output, not no_headers)
        return
    one = look_up(key)
    if isinstance(one, Key):
        print(f"{one.key}\n\n  {one.kind} on {one.on}, written by {one.by}\n")
        print(f"{_filled(one.text)}\n\n  {one.example}")
    else:
        print(f"{one.reason}\n\n  why a gang waits, written by the service\n")
        print(f"{_filled(one.text)}\n\n{_filled(one.advice)}")


def _filled(text: str) -> str:
    import textwrap

    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="  ")


def look_up(text: str) -> Key | ExplainedReason:
    """Return the key that ``text`` names, in full or without its domain, or the reason.

    Raise `CommandError` if there is none.
    """
    wanted = text.strip().rstrip(":")
    for reason in known_reasons():
        if wanted.lower() == reason.reason.lower():
            return reason
    for one in known_keys():
        if wanted in (one.key, one.short):
            return one
    for one in known_keys():
        if one.key.endswith("*") and (
            wanted.startswith(one.key[:-1])
            or (one.short and "/" not in wanted and wanted.startswith(one.short))
        ):
            return one
    known = (*(one.short for one in known_keys()), *(one.reason for one in known_reasons()))
    hint = nearest(wanted.rpartition("/")[2], known, "kubectl fluence explain lists all")
    raise CommandError(f'"{text}" is no key of ours; {hint}')


def _item(one: Key | ExplainedReason) -> Item:
    fields = asdict(one)
    if isinstance(one, Key):
        return {"name": fields.pop("key"), **fields}
    return {"name": fields.pop("reason"), "kind": "reason", "on": "gang", "by": "the service", **fields}


COLUMNS = (
    TableColumn("KEY", lambda one: str(one["name"])),
    TableColumn("KIND", lambda one: str(one["kind"])),
    TableColumn("ON", lambda one: str(one["on"])),
    TableColumn("WRITTEN BY", lambda one: str(one["by"])),
    TableColumn("EXAMPLE", lambda one: str(one.get("example", "")), wide=True),
)
