"""The table of all labels, annotations, gates and resource names of ours, which is ``keys.json``.

What ``kubectl fluence explain`` prints, the remarks on keys that have no effect, and the tests of pages and admission
policies are made from it. The code uses the names in `names` and `coordination`; a test compares them with the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fluence_extender.model.names import DOMAIN

LABEL, ANNOTATION = "label", "annotation"
DURATION = "duration"


@dataclass(frozen=True, slots=True)
class Key:
    """A key: its ``kind``, the objects that it is ``on``, and the party that it is written ``by``.

    ``key`` is in full; ``*`` at its end stands for the rest of a name. ``page`` is the file that explains it most
    fully. ``form`` is `DURATION` if the value is a time, "" otherwise.
    """

    key: str
    kind: str
    on: str
    by: str
    text: str
    example: str
    page: str
    form: str = ""

    @property
    def short(self) -> str:
        """The key without its domain."""
        return self.key.partition("/")[2].rstrip("*") or self.key

    @property
    def is_prefix(self) -> bool:
        """Whether users choose the end of the key."""
        return self.key.endswith("*")

    @property
    def of_users(self) -> bool:
        """Whether users write it."""
        return self.by.startswith("you")


KEYS = tuple(Key(**entry) for entry in json.loads(Path(__file__).with_name("keys.json").read_text("utf-8")))

_ON_PODS = [key for key in KEYS if key.key.startswith(f"{DOMAIN}/") and "pod" in key.on]

LABELS = frozenset(key.key for key in _ON_PODS if key.kind == LABEL and key.of_users)
"""The labels of pods that users set."""

ANNOTATIONS = frozenset(key.key for key in _ON_PODS if key.kind == ANNOTATION and not key.is_prefix)
"""The annotations of pods. A copied manifest may also contain some that the project writes."""

REQUESTED = frozenset(key.key for key in _ON_PODS if key.key in ANNOTATIONS and key.of_users)
"""The annotations of pods that users set."""

PREFIXES = tuple(key.key.rstrip("*") for key in _ON_PODS if key.is_prefix)
"""Prefixes of annotations whose ends users choose."""

TIMES = tuple(key.key for key in KEYS if key.form == DURATION)

TEMPLATED = frozenset(key.key for key in _ON_PODS if key.on == "pod" and key.of_users and not key.is_prefix)
"""The keys that users set and that count on pods only, not on the objects that create pods."""

ON_JOBS = frozenset(key.key for key in KEYS if key.on.startswith("Job"))
"""The keys that are about Jobs and never on pods."""
