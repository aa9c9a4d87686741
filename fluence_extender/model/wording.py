"""Sentences that have two forms: one for all who see an object, and one that also names objects of other namespaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WithNames:
    """The form of a sentence with all names, for those who may see all ``namespaces`` of the objects that it names.

    It stands beside the form for everyone, which names no object of another namespace.
    """

    text: str
    namespaces: frozenset[str]
