"""Answers as text: tables for people, JSON, YAML or names for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fluence_extender.apps.kubectl.question import Question
from fluence_extender.apps.kubectl.terminal import GREEN, RED, YELLOW, painted

Item = dict[str, Any]

LONGEST_CELL = 60
"""Characters of a cell, but in the last column and with -o wide."""

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
class Column:
    """One column: its heading, what stands in it, and whether it is for -o wide only."""

    heading: str
    cell: Callable[[Item], str]
    wide: bool = False


def table(
    columns: Sequence[Column], items: Iterable[Item], question: Question, widths: list[int] | None = None
) -> list[str]:
    """The lines of a table; an empty cell is ``-``.

    ``widths``, in characters, are those that the columns have so far, for a table that goes on; they are widened.
    """
    shown = [column for column in columns if question.wide or not column.wide]
    rows = [[_cell(column.cell(item)) for column in shown] for item in items]
    if not question.wide:
        rows = [[*map(_short, row[:-1]), row[-1]] for row in rows]
    if "no-headers" not in question.switches:
        rows.insert(0, [column.heading for column in shown])
    widths = [] if widths is None else widths
    widths += [0] * (len(shown) - len(widths))
    widths[:] = [max([width, *(len(row[index]) for row in rows)]) for index, width in enumerate(widths)]
    return [_line(row, widths) for row in rows]


def answer(
    question: Question, kind: str, items: Sequence[Item], columns: Sequence[Column], none: str
) -> None:
    """Print ``items`` as was asked; ``none`` is said (on stderr) where a table would be empty."""
    if question.output in ("json", "yaml"):
        document({"items": list(items)}, question.output)
    elif question.output == "name":
        for item in items:
            print(f"{kind}/{item.get('name') or item.get('backend')}")
    elif not items:
        print(none, file=sys.stderr)
    else:
        for line in table(columns, items, question):
            print(line)


def document(value: Any, form: str) -> None:
    """Print a value as JSON or YAML."""
    if form == "yaml":
        import yaml

        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")
        return
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))


def _cell(text: str) -> str:
    return " ".join(text.split()) or "-"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 3] + "..."


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    padded[-1] = row[-1]
    return "   ".join(
        painted(cell, STYLES[word], sys.stdout) if (word := cell.strip()) in STYLES else cell
        for cell in padded
    )
