"""The parts that pages are made of: tables, bars, states, times, filters, commands to copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from fluence_extender.dashboard.views.filters import PAGE, Cut, Filters
from fluence_extender.dashboard.views.overview import Utilization

SYMBOLS = {
    "waiting": "◷",
    "planned": "◔",
    "committed": "◑",
    "bound": "●",
    "finished": "✓",
    "gone": "✕",
    "": "-",
}
"""A sign for each state, so that nobody has to tell colors apart."""

BAR_WIDTH = 100

MOST_WRITTEN = 1_000
"""Rows of a kind that are kept as text."""

NONE = "-"
"""What a cell without content says; a narrow screen leaves it out."""


def heading(text: str, command: str = "") -> Element:
    """Return a heading, with the command that says the same."""
    return h.div(".heading")[h.h2[text], command_button(command) if command else None]


def command_button(command: str) -> Element:
    """Return a button that copies a command; it shows the command when pointed at."""
    return h.button(
        ".copy",
        {"data-copy": command, "aria-label": f"Copy the command: {command}"},
        type="button",
        title=command,
    )["$_"]


def state_badge(state: str) -> Element:
    """Return a gang's state as a sign and a word."""
    return h.span(class_=["badge", f"state-{state or 'none'}"])[
        h.span(aria_hidden="true")[SYMBOLS.get(state, "?")], f" {state or 'none'}"
    ]


def ago(moment: str) -> Node:
    """Return a time as "5m ago"; the browser keeps it true."""
    return h.time(".ago", datetime=moment, title=moment)[_clock(moment)] if moment else "-"


def until(moment: str) -> Node:
    """Return a time to come as "in 5m"; the browser keeps it true."""
    return h.time(".until", datetime=moment, title=moment)[_clock(moment)] if moment else "-"


def _clock(moment: str) -> str:
    return moment.replace("T", " ")[:19] + " UTC"


def bar(use: Utilization, label: str = "") -> Element:
    """Return a bar of what gangs hold and other pods use, with the amounts as text beside it."""
    held, others = use.held * BAR_WIDTH, use.others * BAR_WIDTH
    drawing = h.svg(".bar", viewBox=f"0 0 {BAR_WIDTH} 10", preserveAspectRatio="none", aria_hidden="true")[
        h.rect(".track", x="0", y="0", width=str(BAR_WIDTH), height="10"),
        h.rect(".held", x="0", y="0", width=f"{held:.1f}", height="10"),
        h.rect(".others", x=f"{held:.1f}", y="3", width=f"{min(others, BAR_WIDTH - held):.1f}", height="7"),
    ]
    return h.span(".use")[h.span(".label")[label] if label else None, drawing, h.span(".figure")[use.text]]


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Node]], empty: Node) -> Element:
    """Return a table that says what to do when it has no rows. The first cell of a row is its heading.

    A narrow screen shows each row as a card, so each cell names its column.
    """
    return framed_table(caption, columns, [table_row(columns, cells) for cells in rows], empty)


def table_row(columns: Sequence[str], cells: Sequence[Node]) -> Element:
    """Return a row of a table."""
    return h.tr[
        (
            (h.th(scope="row", data_label=name) if number == 0 else _cell(name, cell))[cell]
            for number, (name, cell) in enumerate(zip(columns, cells, strict=True))
        )
    ]


def written(element: Element) -> Markup:
    """Return an element as text, for what looks the same most often when a page is made anew."""
    return Markup("".join(element.iter_chunks()))


def framed_table(caption: str, columns: Sequence[str], made: Sequence[Node], empty: Node) -> Element:
    """Return a table of rows that are made already."""
    if not made:
        return h.p(".empty")[empty]
    return h.div(".table", tabindex="0", role="region", aria_label=caption)[
        h.table[
            h.caption(".unseen")[caption],
            h.thead[h.tr[(h.th(scope="col")[name] for name in columns)]],
            h.tbody[made],
        ]
    ]


def _cell(column: str, cell: Node) -> Element:
    return h.td(data_label=column, class_={"bare": cell == NONE})


def pager(found: Cut[Any], path: str, filters: Filters) -> Node:
    """Return where the page stands in the whole table, with the ways to the next and to the last one."""
    if found.pages == 1:
        return h.p(".count")[f"{found.total:,} in all"] if found.total else None
    first = (found.number - 1) * PAGE + 1
    before = filters.address(path, page=str(found.number - 1)) if found.number > 1 else ""
    after = filters.address(path, page=str(found.number + 1)) if found.number < found.pages else ""
    return h.nav(".pager", aria_label="Pages of the table")[
        h.a(href=before, rel="prev")["← before"] if before else None,
        h.span[f"{first:,} to {first + len(found.rows) - 1:,} of {found.total:,}"],
        h.a(href=after, rel="next")["after →"] if after else None,
    ]


def filter_form(path: str, filters: Filters, *fields: Node, kept: Sequence[str] = ()) -> Element:
    """Return the form of the filters; what is chosen stands in the address. ``kept`` are filters without a field."""
    return h.form(".filters", method="get", action=path, role="search", aria_label="Filters")[
        (h.input(type="hidden", name=name, value=filters[name]) for name in kept if filters[name]),
        fields,
        text_field(filters),
        h.button(type="submit")["Filter"],
        h.a(href=path)["All"] if any(name != "page" for name in filters.given) else None,
    ]


def text_field(filters: Filters) -> Element:
    """Return the field for a part of a name or a reason."""
    return h.label["Text", h.input(type="search", name="text", value=filters["text"], maxlength="200")]


def input_field(label: str, name: str, hint: str, filters: Filters) -> Element:
    """Return a field for any text."""
    return h.label[label, h.input(name=name, value=filters[name], placeholder=hint, maxlength="200")]


def choice_field(label: str, name: str, options: Sequence[str], filters: Filters) -> Element:
    """Return a field to choose exactly one of the ``options``; the first unless the address says otherwise."""
    chosen = filters[name] or options[0]
    return h.label[
        label, h.select(name=name)[(h.option(value=one, selected=one == chosen)[one] for one in options)]
    ]


def select_field(label: str, name: str, options: Sequence[str], filters: Filters) -> Element:
    """Return a field to choose one of the ``options``, or all."""
    given = filters[name]
    offered = [*options, given] if given and given not in options else options
    return h.label[
        label,
        h.select(name=name)[
            h.option(value="")["all"],
            (h.option(value=one, selected=one == given)[one] for one in offered),
        ],
    ]


def note(text: Node, advice: Node = None, kind: str = "note") -> Element:
    """Return a notice with what to do."""
    return h.div(class_=["notice", kind], role="status")[h.p[h.strong[text]], h.p[advice] if advice else None]
