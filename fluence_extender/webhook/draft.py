"""A pod while handlers work on it: every change is made on a copy and noted as an operation of RFC 6902.

Invariant: ``operations``, applied in order to the pod that the draft was made of, give ``pod``.
"""

from __future__ import annotations

from typing import Any

from fluence_extender.webhook.contract import Json, Operation

Step = str | int


def copied(value: Any) -> Any:
    """A copy of a JSON value, down to what can't be changed; several times faster than a copy of anything."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value


class Draft:
    """A copy of a pod, with what was changed in it and what its user should be told.

    Values given to it are kept: whoever gives one doesn't change it any more.
    """

    def __init__(self, pod: Json) -> None:
        self.pod: Json = copied(pod)
        self.operations: list[Operation] = []
        self.warnings: list[str] = []

    @property
    def spec(self) -> Json:
        """The spec; to be changed by the methods below only."""
        spec: Json = self.pod["spec"]
        return spec

    def warn(self, text: str) -> None:
        """Tell the pod's user something; once, whoever says it."""
        if text not in self.warnings:
            self.warnings.append(text)

    def get(self, *path: Step) -> Any:
        """What stands at ``path``, None where nothing does."""
        found: Any = self.pod
        for step in path:
            if isinstance(step, int):
                found = found[step]
            elif isinstance(found, dict):
                found = found.get(step)
            else:
                return None
        return found

    def put(self, *path: Step, value: Any) -> None:
        """Let ``value`` stand at ``path``; maps on the way are made where they are missing."""
        way = path[:-1]
        for depth in range(1, len(way) + 1):
            if self.get(*way[:depth]) is None:
                self._put(way[:depth], {})
        if self.get(*path) != value or value is None:
            self._put(path, value)

    def insert(self, *path: Step, values: list[Any], at: int | None = None) -> None:
        """Insert ``values`` into the list at ``path``, in their order, from index ``at`` on (default: at its end)."""
        if not values:
            return
        there = self.get(*path)
        if there is None:
            self.put(*path, value=list(values))
            return
        for number, value in enumerate(values):
            index = len(there) if at is None else at + number
            there.insert(index, copied(value))
            self.operations.append(Operation("add", _pointer((*path, index)), value))

    def remove(self, *path: Step) -> None:
        """Remove what stands at ``path``, which is there."""
        *way, last = path
        del self.get(*way)[last]
        self.operations.append(Operation("remove", _pointer(path)))

    def _put(self, path: tuple[Step, ...] | list[Step], value: Any) -> None:
        *way, last = path
        holder = self.get(*way)
        there = isinstance(last, int) or last in holder
        holder[last] = copied(value)
        self.operations.append(Operation("replace" if there else "add", _pointer(path), value))


def _pointer(path: tuple[Step, ...] | list[Step]) -> str:
    """RFC 6901: ``~`` and ``/`` within a step are escaped."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
