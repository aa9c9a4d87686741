"""The length of texts, and sentences that also have a form which names objects of other namespaces."""

from __future__ import annotations

from dataclasses import dataclass


def shortened(text: str, most: int) -> str:
    """Return a text with at most so many characters: its beginning and "...", if it is longer."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


@dataclass(frozen=True, slots=True)
class WithNames:
    """The form of a sentence with all names, for those who may see all ``namespaces`` of the objects that it names.

    It stands beside the form for everyone, which names no object of another namespace.
    """

    text: str
    namespaces: frozenset[str]
