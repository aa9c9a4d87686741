"""Output of lists: tables for people; JSON, YAML or names for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fluence_extender.apps.kubectl.terminal import GREEN, RED, YELLOW, painted
from fluence_extender.model.wording import shortened

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item

FORMS = ("json", "yaml", "wide", "name")
"""The values of ``--output`` for a list."""

LONGEST_CELL = 60
"""Characters of a cell. The last column, and all columns of ``-o wide``, have no limit."""

STYLES = {
    "bound": GREEN,
    "waiting": YELLOW,
    "planned": YELLOW,
    "committed": YELLOW,
    "ok": GREEN,
    "warning": YELLOW,
    "fault": RED,
}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its heading, the text of its cells, and whether only ``-o wide`` shows it."""

    heading: str
    cell: Callable[[Item], str]
    wide: bool = False


def table(
    columns: Sequence[TableColumn],
    items: Iterable[Item],
    wide: bool = False,
    headers: bool = True,
    widths: list[int] | None = None,
) -> list[str]:
    """Return the lines of a table; an empty cell is ``-``.

    ``widths``, in characters, are the columns' widths so far for a table that grows. They are widened in place.
    """
    shown = [column for column in columns if wide or not column.wide]
    rows = [[_cell(column.cell(item)) for column in shown] for item in items]
    if not wide:
        rows = [[*map(_shortened, row[:-1]), row[-1]] for row in rows]
    if headers:
        rows.insert(0, [column.heading for column in shown])
    widths = [] if widths is None else widths
    widths += [0] * (len(shown) - len(widths))
    widths[:] = [max([width, *(len(row[index]) for row in rows)]) for index, width in enumerate(widths)]
    return [_line(row, widths) for row in rows]


def print_items(
    kind: str,
    items: Sequence[Item],
    columns: Sequence[TableColumn],
    output: str | None,
    headers: bool = True,
    none: str = "",
) -> None:
    """Print ``items`` in the form ``output``, one of `FORMS` or None for a table.

    ``kind`` stands in front of names. ``none`` is printed on stderr in place of an empty table.
    """
    if output in ("json", "yaml"):
        print_document({"items": list(items)}, output)
    elif output == "name":
        for item in items:
            print(f"{kind}/{item.get('name') or item.get('backend')}")
    elif not items:
        print(none, file=sys.stderr)
    else:
        for line in table(columns, items, output == "wide", headers):
            print(line)


def print_document(value: Any, form: str) -> None:
    """Print a value as JSON or YAML."""
    if form == "yaml":
        import yaml

        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")
        return
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))


def _cell(text: str) -> str:
    return " ".join(text.split()) or "-"


def _shortened(text: str) -> str:
    return shortened(text, LONGEST_CELL)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    padded[-1] = row[-1]
    return "   ".join(
        painted(cell, STYLES[word], sys.stdout) if (word := cell.strip()) in STYLES else cell
        for cell in padded
    )
