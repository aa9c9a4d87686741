"""The gangs that have changed and weren't looked at since then. They are taken one by one; the namespaces take turns.

So a namespace with thousands of changed gangs delays those of another namespace by one gang at a time. Within a
namespace, the gang that has waited the longest comes first. A gang that is put off isn't taken until `call` names its
namespace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain

from fluence_extender.model.gang import GangKey


class ChangedGangs:
    """The gangs that have changed, each once."""

    def __init__(self) -> None:
        # Unlike a dict, an OrderedDict is emptied from the front in constant time.
        self._namespaces: OrderedDict[str, OrderedDict[GangKey, None]] = OrderedDict()
        self._count = 0
        self.put_off: dict[str, set[GangKey]] = {}
        """The gangs that are put off, by namespace."""
        self.since_view: set[GangKey] = set()
        """The gangs that have changed since a view of them was taken, whether they were looked at or not."""

    def __contains__(self, key: GangKey) -> bool:
        """Return whether a gang has changed."""
        return self.may_be_taken(key) or (bool(self.put_off) and key in self.put_off.get(key.namespace, ()))

    def may_be_taken(self, key: GangKey) -> bool:
        """Return whether a gang has changed and isn't put off."""
        return bool(self._count) and key in self._namespaces.get(key.namespace, ())

    def __iter__(self) -> Iterator[GangKey]:
        """Return the gangs that may be taken, namespace by namespace."""
        return (key for keys in self._namespaces.values() for key in keys)

    def keys(self) -> frozenset[GangKey]:
        """Return all that have changed, also those that are put off."""
        if not (self._count or self.put_off):
            return frozenset()
        return frozenset(chain(self, *self.put_off.values()))

    def __len__(self) -> int:
        """Return how many gangs may be taken."""
        return self._count

    def add(self, key: GangKey) -> None:
        """Record that a gang has changed."""
        self.since_view.add(key)
        if self.put_off and key in self.put_off.get(key.namespace, ()):
            return
        keys = self._namespaces.get(key.namespace)
        if keys is None:
            keys = self._namespaces[key.namespace] = OrderedDict()
        elif key in keys:
            return
        keys[key] = None
        self._count += 1

    def update(self, keys: Iterable[GangKey]) -> None:
        """Record that gangs have changed."""
        for key in keys:
            self.add(key)

    def discard(self, key: GangKey) -> None:
        """Forget that a gang has changed."""
        self.put_off.get(key.namespace, set()).discard(key)
        if key not in self:
            return
        keys = self._namespaces[key.namespace]
        del keys[key]
        self._count -= 1
        if not keys:
            del self._namespaces[key.namespace]

    def take(self) -> GangKey:
        """Take the next gang: the one that changed first in the namespace whose turn it is."""
        namespace, keys = next(iter(self._namespaces.items()))
        key, _ = keys.popitem(last=False)
        self._count -= 1
        if keys:
            self._namespaces.move_to_end(namespace)
        else:
            del self._namespaces[namespace]
        return key

    def postpone(self, key: GangKey) -> None:
        """Put off a gang that was taken."""
        self.put_off.setdefault(key.namespace, set()).add(key)

    def call(self, namespace: str) -> None:
        """Let the gangs of a namespace that are put off be taken."""
        self.update(sorted(self.put_off.pop(namespace, ())))

    def clear(self) -> None:
        """Forget all gangs."""
        self._namespaces.clear()
        self.put_off.clear()
        self._count = 0
