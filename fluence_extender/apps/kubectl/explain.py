"""``kubectl fluence explain``: every label, annotation, gate and resource name of ours, and every reason to wait.

The explanations of keys are those of `keys`. Those of reasons are in ``reasons.json``, each with its ``text`` and
``advice``.
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
from fluence_extender.model.keys import KEYS, Key

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fluence_extender.apps.kubectl.state_api import Item

REASONS_FILE = Path(__file__).with_name("reasons.json")


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
        CompletionItem(key.short, help=f"{key.kind} on {key.on}")
        for key in KEYS
        if not key.is_prefix and key.short.startswith(incomplete)
    ] + [
        CompletionItem(reason.reason, help="why a gang waits")
        for reason in known_reasons()
        if reason.reason.startswith(incomplete)
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
        explained: list[Key | ExplainedReason] = [*KEYS, *known_reasons()]
        if key is not None:
            explained = [look_up(key)]
        print_items("key", [_item(each) for each in explained], COLUMNS, output, not no_headers)
        return
    match look_up(key):
        case Key() as named:
            print(f"{named.key}\n\n  {named.kind} on {named.on}, written by {named.by}; see {named.page}\n")
            print(f"{_filled(named.text)}\n\n  {named.example}")
        case ExplainedReason(reason, text, advice):
            print(f"{reason}\n\n  why a gang waits, written by the service\n")
            print(f"{_filled(text)}\n\n{_filled(advice)}")


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
    for key in KEYS:
        if wanted in (key.key, key.short):
            return key
    for key in KEYS:
        if key.is_prefix and (
            wanted.startswith(key.key[:-1])
            or (key.short and "/" not in wanted and wanted.startswith(key.short))
        ):
            return key
    names = (*(key.short for key in KEYS), *(reason.reason for reason in known_reasons()))
    hint = nearest(wanted.rpartition("/")[2], names, "kubectl fluence explain lists all")
    raise CommandError(f'"{text}" is no key of ours; {hint}')


def _item(explained: Key | ExplainedReason) -> Item:
    fields = asdict(explained)
    if isinstance(explained, Key):
        return {"name": fields.pop("key"), **fields}
    return {"name": fields.pop("reason"), "kind": "reason", "on": "gang", "by": "the service", **fields}


COLUMNS = (
    TableColumn("KEY", lambda item: str(item["name"])),
    TableColumn("KIND", lambda item: str(item["kind"])),
    TableColumn("ON", lambda item: str(item["on"])),
    TableColumn("WRITTEN BY", lambda item: str(item["by"])),
    TableColumn("EXAMPLE", lambda item: str(item.get("example", "")), wide=True),
)
