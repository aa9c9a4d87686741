"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, or nothing where there are no rows."""
    lines = [columns, ["---" for _ in columns], *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n" if rows else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
