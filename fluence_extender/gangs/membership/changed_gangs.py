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
    """The gangs that have changed, each once; true while one of them may be taken.

    ``put_off`` are the gangs that are put off, by namespace.
    """

    def __init__(self) -> None:
        # Unlike a dict, an OrderedDict is emptied from the front in constant time.
        self._namespaces: OrderedDict[str, OrderedDict[GangKey, None]] = OrderedDict()
        self.put_off: dict[str, set[GangKey]] = {}

    def __bool__(self) -> bool:
        """Return whether any gang may be taken."""
        return bool(self._namespaces)

    def __contains__(self, key: GangKey) -> bool:
        """Return whether a gang has changed."""
        return self.may_be_taken(key) or self._is_put_off(key)

    def may_be_taken(self, key: GangKey) -> bool:
        """Return whether a gang has changed and isn't put off."""
        return key in self._namespaces.get(key.namespace, ())

    def _is_put_off(self, key: GangKey) -> bool:
        return key in self.put_off.get(key.namespace, ())

    def __iter__(self) -> Iterator[GangKey]:
        """Return the gangs that may be taken, namespace by namespace."""
        return chain(*self._namespaces.values())

    def keys(self) -> frozenset[GangKey]:
        """Return all that have changed, also those that are put off."""
        return frozenset(chain(self, *self.put_off.values()))

    def add(self, key: GangKey) -> None:
        """Record that a gang has changed."""
        if not self._is_put_off(key):
            self._namespaces.setdefault(key.namespace, OrderedDict()).setdefault(key)

    def update(self, keys: Iterable[GangKey]) -> None:
        """Record that gangs have changed."""
        for key in keys:
            self.add(key)

    def discard(self, key: GangKey) -> None:
        """Forget that a gang has changed."""
        self.put_off.get(key.namespace, set()).discard(key)
        if self.may_be_taken(key):
            keys = self._namespaces[key.namespace]
            del keys[key]
            if not keys:
                del self._namespaces[key.namespace]

    def take(self) -> GangKey:
        """Take the next gang: the one that changed first in the namespace whose turn it is."""
        namespace, keys = next(iter(self._namespaces.items()))
        key, _ = keys.popitem(last=False)
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
