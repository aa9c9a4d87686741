"""Which known word users mean by one that isn't known, for a bounded number of words of each namespace.

To compare two words takes the product of their lengths, so no decision waits for it: a hint is made when a text is
shown. Users choose the words, and they may choose thousands.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MOST_WORDS = 8
"""The words of one namespace that get a hint."""

MOST_NAMESPACES = 1000
"""The namespaces whose hints are kept: those that asked for one last."""


class Hints:
    """Makes hints with ``search``, which returns the one for a namespace and a word; each is made once."""

    def __init__(self, search: Callable[[str, str], str]) -> None:
        self._search = search
        self._found: OrderedDict[str, dict[str, str]] = OrderedDict()

    def of(self, namespace: str, word: str, otherwise: str) -> str:
        """Return the hint for a word, ``otherwise`` if too many other words of the namespace have one."""
        found = self._found.setdefault(namespace, {})
        self._found.move_to_end(namespace)
        if len(self._found) > MOST_NAMESPACES:
            self._found.popitem(last=False)
        if word not in found:
            if len(found) >= MOST_WORDS:
                return otherwise
            found[word] = self._search(namespace, word)
        return found[word]

    def clear(self) -> None:
        """Forget all hints, because other words are known."""
        self._found.clear()
