"""Match policies: how vertices are scored and which candidates are best.

The policies share one rule set; they differ in the score of a vertex and in the direction of sorting. Node-centric
policies add to every score the factors of the nodes around it, so that vertices of one node stay together.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence

from tests.oracle.errors import InvalidOptions
from tests.oracle.walker.graph import GraphVertex
from tests.oracle.walker.request import RequestLevel
from tests.oracle.walker.scoring import Group, Keys, Scores

NAMED = {
    "first": "policy=high node_centric=true stop_on_1_matches=true",
    "firstnodex": "policy=high node_centric=true node_exclusive=true stop_on_1_matches=true",
    "high": "policy=high",
    "low": "policy=low",
    "lonode": "policy=low node_centric=true",
    "hinode": "policy=high node_centric=true",
    "lonodex": "policy=low node_centric=true node_exclusive=true",
    "hinodex": "policy=high node_centric=true node_exclusive=true",
}

_MET = 1
_NODE_FACTOR = 10000
_INT64_MAX = 2**63 - 1
_WORST_CLASS = 9999
_LEADING_INTEGER = re.compile(r"\s*([+-]?\d{1,12})(?!\d)", re.ASCII)
_SWITCHES = ("node_centric", "node_exclusive", "stop_on_1_matches")


def highest(groups: Sequence[Group]) -> list[int]:
    """Return keys that put the highest score first."""
    return [-group.score for group in groups]


def lowest(groups: Sequence[Group]) -> list[int]:
    """Return keys that put the lowest score first."""
    return [group.score for group in groups]


class Policy:
    """Scores by id, higher or lower ones first.

    ``stops_early``: children are visited heaviest edge first, and only until there is enough. ``whole_types`` are
    taken with everything below them, whatever is asked for.
    """

    def __init__(
        self,
        keys: Keys = highest,
        slot_keys: Keys | None = None,
        *,
        node_centric: bool = False,
        node_exclusive: bool = False,
        stops_early: bool = False,
    ) -> None:
        self.keys = keys
        self.slot_keys = slot_keys or keys
        self.node_centric = node_centric
        self.whole_types = frozenset({"node"}) if node_exclusive else frozenset()
        self.stops_early = stops_early
        self._around = 0
        self._factor = 0

    def enter_node(self, vertex: GraphVertex) -> bool:
        """Add a node's factor to all scores below it. Return False for a node that can't be scored."""
        if vertex.id < -1 or vertex.uniq_id < 0:
            return False
        weighed = (vertex.id + 2) * _NODE_FACTOR
        factor = weighed + abs(vertex.uniq_id % _NODE_FACTOR - 1)
        if factor > _INT64_MAX:
            return False
        self._factor = factor
        self._around += factor
        return True

    def leave_node(self) -> None:
        """Subtract the last factor added, which is that of an inner node where nodes are nested."""
        self._around -= self._factor

    def score(self, vertex: GraphVertex) -> int:
        """Return the score of a vertex that meets the request."""
        return _MET + self._around + vertex.id + 1

    def choose_top(self, level: RequestLevel, scores: Scores) -> bool:
        """Choose among the candidates of the whole graph. Return False if a resource can't be met."""
        met = True
        for wanted in level.resources:
            count = wanted.count.within(scores.qualified(wanted.type))
            if count == 0:
                met = False
                break
            scores.choose(wanted.type, count, self._top_keys(wanted.type, scores))
        self._around = 0
        return met

    def _top_keys(self, name: str, scores: Scores) -> Keys:
        return self.keys


class Locality(Policy):
    """Prefers runs of consecutive scores over the whole graph, the higher run first."""

    def choose_top(self, level: RequestLevel, scores: Scores) -> bool:
        self._values: set[int] = set()
        return super().choose_top(level, scores)

    def _top_keys(self, name: str, scores: Scores) -> Keys:
        self._values.update(group.score for group in scores.of(name).groups)
        starts: dict[int, int] = {}
        for value in sorted(self._values):
            starts[value] = starts.get(value - 1, value)
        return lambda groups: [-starts[group.score] for group in groups]


class Variation(Policy):
    """Prefers vertices of the lowest performance class, given by the property ``perf_class``."""

    def score(self, vertex: GraphVertex) -> int:
        return _MET + perf_class(vertex.properties)


def perf_class(properties: Mapping[str, str]) -> int:
    """Return the performance class that the properties name, the worst class where they name none."""
    match = _LEADING_INTEGER.match(properties.get("perf_class", ""))
    found = int(match[1]) if match else _WORST_CLASS
    return found if 0 <= found <= _WORST_CLASS else _WORST_CLASS


def create_policy(name: str) -> Policy:
    """Return the policy of that name, or of a custom text such as ``policy=low node_centric=true``.

    As in libreapi_cli, the words of a custom text count up to the first invalid one. Raises `InvalidOptions`.
    """
    if name == "locality":
        return Locality()
    if name == "variation":
        return Variation(lowest, highest)
    words = _words(NAMED.get(name, name))
    if not (words.get("high") or words.get("low")):
        raise InvalidOptions(f"unknown match policy {name!r}", errno.EPROTO)
    return Policy(
        highest if words.get("high") else lowest,
        node_centric=words.get("node_centric", False),
        node_exclusive=words.get("node_exclusive", False),
        stops_early=words.get("stop_on_1_matches", False),
    )


def _words(text: str) -> dict[str, bool]:
    words: dict[str, bool] = {}
    for word in text.split(" "):
        key, *values = word.split("=")
        if key != "policy" and key not in _SWITCHES:
            break
        if not values:
            raise InvalidOptions(f"the policy option {key!r} has no value", errno.EPROTO)
        value = values[0]
        if key == "policy":
            if value not in ("high", "low"):
                break
            words.setdefault(value, True)
        elif value == "true":
            words.setdefault(key, True)
        elif value == "false" and key not in words:
            words[key] = False
        else:
            break
    return words
