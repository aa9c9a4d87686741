"""The types, names and attribute keys that a resources file may use.

A type ends a resource name (``fluxion.flux-framework.org/qpu``) and is a Fluxion vertex type. A name is part of a
vertex path and an annotation value. An attribute key ends the annotations ``require-<key>`` and ``attr-<key>``. Each
rule returns a message and its fix, or None when the word is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from fluence_extender.graph.virtual import environment_name

RESERVED_TYPES = frozenset(
    # Fluxion's own types, its prune filter wildcard, and the parts of physical nodes.
    {
        "cluster",
        "core",
        "socket",
        "gpu",
        "node",
        "rack",
        "slot",
        "xor_slot",
        "ssd",
        "storage_node",
        "memory",
        "ALL",
    }
)

_TYPE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,252}", re.ASCII)
# An annotation name has at most 63 characters, of which "require-" takes 8.
_ATTRIBUTE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,53}[A-Za-z0-9])?", re.ASCII)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

Rule = tuple[str, str] | None
"""A message and its fix, or None when the word is allowed."""


def type_rule(kind: str, taken: Collection[str] = RESERVED_TYPES) -> Rule:
    """Check that ``kind`` can be the type of a virtual resource and isn't ``taken``."""
    if kind in taken:
        return f"type {kind!r} is one the graph uses itself", "choose another type, such as qpu"
    if not _TYPE.fullmatch(kind):
        return (
            f"type {kind[:80]!r} can't end a resource name",
            "use at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
        )
    return None


def name_rule(name: str) -> Rule:
    """Check that ``name`` can be part of a vertex path and the name of a backend."""
    if _NAME.fullmatch(name):
        return None
    return (
        f"name {name[:80]!r} can't be part of a graph path",
        "use letters, digits and . _ : + -, beginning with a letter or digit, without '/' and spaces",
    )


def attribute_rule(key: str) -> Rule:
    """Check that ``key`` can end an annotation name and doesn't stand for the backend itself."""
    if environment_name(key) == "FLUXION_BACKEND":
        return f"attribute {key!r} would hide the backend's own name", "choose another key"
    if not _ATTRIBUTE.fullmatch(key):
        return (
            f"attribute {key[:80]!r} can't end an annotation name",
            "use at most 55 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
        )
    return None


def value_rule(value: str) -> Rule:
    """Check that ``value`` can be written into a graph and an annotation."""
    if _CONTROL.search(value):
        return f"value {value[:80]!r} holds control characters", "keep it to one line of plain text"
    return None


MOST_COMPARED = 64
"""Words that an unknown one is compared with, and characters of the unknown one; each comparison costs time."""


def nearest(word: str, known: Collection[str]) -> str:
    """Return advice for a word that isn't ``known``: the known word that it resembles, or all known words."""
    if len(known) > MOST_COMPARED or len(word) > MOST_COMPARED:
        return f"write one of the {len(known)} that are known"
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(sorted(known))
