"""A pod or workload with recorded changes: each change is an operation of RFC 6902 (JSON Patch).

Only the parts that change are copied, because most of an object stays as it is. Invariants: ``operations``, applied in
order to the original, give ``object``; the original itself isn't changed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fluence_extender.webhook.contract import Json, Operation

Step = str | int


class Draft:
    """An object with the changes made to it and the warnings for its user.

    The draft keeps the values that it is given, so a caller must not change them afterwards.
    """

    def __init__(self, original: Json) -> None:
        self.object: Json = dict(original)
        self.operations: list[Operation] = []
        self._warnings: dict[str, None] = {}
        self._own: dict[int, Any] = {}

    @property
    def spec(self) -> Json:
        """The spec. Change it through the methods below only."""
        spec: Json = self.object["spec"]
        return spec

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings in the order in which they were given."""
        return tuple(self._warnings)

    def warn(self, text: str) -> None:
        """Warn the user, once for each text."""
        self._warnings[text] = None

    def add_gate(self, name: str) -> None:
        """Add a scheduling gate to the pod, unless it has that gate."""
        if all(gate.get("name") != name for gate in self.spec.get("schedulingGates") or ()):
            self.insert("spec", "schedulingGates", values=[{"name": name}])

    def get(self, *path: Step) -> Any:
        """Return the value at ``path``, None if there is none."""
        found: Any = self.object
        for step in path:
            if isinstance(step, int):
                found = found[step]
            elif isinstance(found, dict):
                found = found.get(step)
            else:
                return None
        return found

    def put(self, *path: Step, value: Any) -> None:
        """Set the value at ``path``; missing maps on the way are made."""
        found: Any = self.object
        for depth, step in enumerate(path[:-1]):
            found = found[step] if isinstance(step, int) else found.get(step)
            if found is None:
                found = {}
                self._put(path[: depth + 1], found)
        if isinstance(path[-1], int) or found.get(path[-1]) != value or value is None:
            self._put(path, value)

    def insert(self, *path: Step, values: list[Any], at: int | None = None) -> None:
        """Insert ``values`` into the list at ``path``, in their order, at index ``at`` (default: at the end)."""
        if not values:
            return
        present = self.get(*path)
        if present is None:
            self.put(*path, value=list(values))
            return
        first = len(present) if at is None else at
        self._owned(path)[first:first] = values
        where = _pointer(path)
        self.operations += [Operation("add", f"{where}/{first + i}", one) for i, one in enumerate(values)]

    def remove(self, *path: Step) -> None:
        """Remove the value at ``path``, which must exist."""
        del self._owned(path[:-1])[path[-1]]
        self.operations.append(Operation("remove", _pointer(path)))

    def _put(self, path: tuple[Step, ...], value: Any) -> None:
        holder, last = self._owned(path[:-1]), path[-1]
        exists = isinstance(last, int) or last in holder
        holder[last] = value
        self.operations.append(Operation("replace" if exists else "add", _pointer(path), value))

    def _owned(self, path: tuple[Step, ...]) -> Any:
        """Return the value at ``path`` as a copy that may be changed, within copies of all that contains it."""
        holder: Any = self.object
        for step in path:
            found = holder[step]
            if id(found) not in self._own:
                found = dict(found) if isinstance(found, dict) else list(found)
                self._own[id(found)] = holder[step] = found
            holder = found
        return holder


@lru_cache(maxsize=4096)
def _pointer(path: tuple[Step, ...]) -> str:
    """Return the path as a JSON Pointer (RFC 6901): ``~`` and ``/`` within a step are escaped."""
    return "".join([f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path])
