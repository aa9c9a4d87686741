"""Hints: which known word a user may have meant by an unknown one. Each namespace gets a bounded number of them.

To compare two words takes time in proportion to the product of their lengths. So no decision waits for a hint: it is
made when a text is shown. The number is bounded because users may write thousands of words.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MOST_WORDS = 8
"""The most words of one namespace that get a hint."""

MOST_NAMESPACES = 1000
"""The most namespaces whose hints are kept: those that asked most recently."""


class Hints:
    """Makes hints with ``search``, which returns the one for a namespace and a word; each is made once."""

    def __init__(self, search: Callable[[str, str], str]) -> None:
        self._search = search
        self._found: OrderedDict[str, dict[str, str]] = OrderedDict()

    def of(self, namespace: str, word: str, otherwise: str) -> str:
        """Return the hint for a word, or ``otherwise`` if too many other words of the namespace have one."""
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
