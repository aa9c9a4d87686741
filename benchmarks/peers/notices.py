"""What users could read about their pods, and when: conditions and Events, as watches show them.

A notice is a sentence with its reason on one kind of object. The same sentence counts once for each object, so that
1,000 members with one message are one notice that 1,000 objects carry.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.localcluster import Api
from tests.localcluster.api import Watch

NUMBER = re.compile(r"\d+")

PROGRESS = ("SchedulingGated", "Scheduled", "Binding")
"""Reasons that say nothing about a gang that doesn't fit."""

KUBELETS = ("Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers")
"""Conditions of pods that say nothing about scheduling."""


@dataclass(slots=True)
class Notice:
    """A sentence: ``place`` is the kind of object that carries it, ``objects`` how many of them do.

    ``after`` are the seconds until it could be read first.
    """

    place: str
    reason: str
    text: str
    after: float
    objects: int = 1


@dataclass(slots=True)
class Board:
    """All notices so far. Sentences that differ only in numbers are one notice, with the text that came first."""

    began: float
    found: dict[tuple[str, str, str], Notice] = field(default_factory=dict)
    _seen: set[tuple[str, str, str, str]] = field(default_factory=set)

    def add(self, shown: Mapping[str, Any], when: float) -> None:
        """Add what an object says, which a watch showed at ``when``."""
        for place, subject, reason, text in _said(shown):
            key = place, reason, NUMBER.sub("#", text)
            if (*key, subject) in self._seen:
                continue
            self._seen.add((*key, subject))
            if key in self.found:
                self.found[key].objects += 1
            else:
                self.found[key] = Notice(place, reason, text, when - self.began)

    @property
    def notices(self) -> list[Notice]:
        """All notices in the order in which they came."""
        return sorted(self.found.values(), key=lambda one: one.after)


def _said(shown: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Return what an object says as place, name of the subject, reason and text."""
    if "regarding" in shown:
        about = shown["regarding"]
        if shown.get("reason") not in PROGRESS:
            yield f"Events on {about['kind']}", about["name"], shown.get("reason", ""), shown.get("note", "")
        return
    kind, name = shown["kind"], shown["metadata"]["name"]
    for condition in shown.get("status", {}).get("conditions", ()):
        reason, text = condition.get("reason", ""), condition.get("message", "")
        told = text and reason not in PROGRESS and condition["type"] not in KUBELETS
        if told:
            yield f"{kind} condition {condition['type']}", name, reason, text


class Notices:
    """Follow ``paths`` (collections of objects, by their kind) from now on; a context manager.

    The seconds of a notice count from ``began``.
    """

    def __init__(self, api: Api, paths: Mapping[str, str], began: float) -> None:
        self._api = api
        self._paths = paths
        self._board = Board(began)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._watches: dict[str, Watch] = {}

    def __enter__(self) -> Self:
        for kind, path in self._paths.items():
            version = self._api.get(path, limit="1")["metadata"]["resourceVersion"]
            self._watches[kind] = self._api.watch(path, version)
            threading.Thread(target=self._follow, args=(kind, path), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        for watch in self._watches.values():
            watch.close()

    @property
    def found(self) -> list[Notice]:
        """What there is so far."""
        with self._lock:
            return self._board.notices

    def _follow(self, kind: str, path: str) -> None:
        version = ""
        while True:
            for event in self._watches[kind]:
                version = event["object"].get("metadata", {}).get("resourceVersion", version)
                if event["type"] in ("ADDED", "MODIFIED"):
                    with self._lock:
                        self._board.add({"kind": kind, **event["object"]}, time.monotonic())
            if self._closing.is_set():
                return
            # The API server ends watches that it finds too slow.
            self._watches[kind] = self._api.watch(path, version)
