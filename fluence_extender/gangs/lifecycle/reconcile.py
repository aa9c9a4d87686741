"""What has to be written to the cluster for a pod: it follows from the pod, its place, and what was written last.

A member's node is decided by the service, and told to the cluster by writes that take time and may fail. kube-scheduler
writes to the same pod: when an attempt of its own fails, it clears the pod's nomination. So no next step is remembered.
Each time that something has changed, `reconcile` compares what is wanted with what the watch shows.

A write counts as under way until the watch shows the pod as it was after the write, according to its resourceVersion.
From then on, a nomination that differs was changed by somebody else. If kube-scheduler has cleared it, the node has
refused the pod once.

Invariants: while a Binding is under way, the pod's place isn't taken from it, because the Binding may exist. A write is
decided once, until it has failed or has been undone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from fluence_extender.gangs.execution.actions import Action, Bind, Evict, Nominate, Steer
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.model.pod import Pod

UNANSWERED = sys.maxsize
"""Stands for the revision of a pod after a write that is under way."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was last written for a pod.

    ``node`` is the node that was written for it, "" if its nomination was taken back, and None if it has to be written.
    ``revision`` is the pod's resourceVersion after the write. ``at`` is when it was written, or when kube-scheduler
    last requested the node, on the controller's clock. ``binding``: a Binding is under way. ``failure`` is why the last
    Binding failed, "" if none has, and ``failures`` counts failed Bindings. ``ours``: our own bind verb has ended
    kube-scheduler's attempt, so that the next cleared nomination isn't the node's refusal. ``cleared`` is the pod's
    resourceVersion after a nomination was last taken back.
    """

    node: str | None = None
    revision: int = 0
    at: float = NEVER
    binding: bool = False
    failure: str = ""
    failures: int = 0
    ours: bool = False
    cleared: int = 0

    def is_shown(self, pod: Pod) -> bool:
        """Return whether the watch shows the pod as it was after the write, or later."""
        return self.revision <= pod.revision

    def again(self) -> Written:
        """Return a copy according to which the node has to be written again."""
        return replace(self, node=None, revision=0)

    def unplaced(self) -> Written:
        """Return what is left of it when the pod's place is taken back."""
        return Written(ours=self.ours, cleared=self.cleared)


NOTHING_WRITTEN = Written()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is decided about a pod.

    ``node`` is its place, and ``held`` the node that is held for it while victims leave; each is "" if there is none.
    ``bound`` is the node to which the pod is known to be bound. ``may_start``: its gang lets it be bound or ungated.
    ``undone`` is why it is evicted with its gang, "" if it isn't.
    """

    node: str = ""
    held: str = ""
    bound: str = ""
    may_start: bool = True
    undone: str = ""


class Rule(NamedTuple):
    """The ``write`` that a pod needs if the rule ``holds``. The documentation says it by ``when`` and ``then``."""

    when: str
    then: str
    holds: Callable[[Pod, Wanted, Written], bool]
    write: Callable[[Pod, Wanted], Action | None] = lambda pod, wanted: None


RULES = (
    Rule("it has ended", "nothing", lambda pod, wanted, written: pod.finished),
    Rule(
        "it is bound, and its gang couldn't be completed in time",
        "it is evicted",
        lambda pod, wanted, written: bool(wanted.bound and wanted.undone) and not pod.deleting,
        lambda pod, wanted: Evict(pod, wanted.undone),
    ),
    Rule("it is bound", "nothing", lambda pod, wanted, written: bool(wanted.bound)),
    Rule(
        "it doesn't exist yet",
        "its workload is resumed when all its pods have places",
        lambda pod, wanted, written: pod.expected,
    ),
    Rule(
        "it has no place, and a nomination for a node that isn't held for it",
        "the nomination is cleared",
        lambda pod, wanted, written: _is_to_be_cleared(pod, wanted, written),
        lambda pod, wanted: Nominate(pod, ""),
    ),
    Rule(
        "it has no place, and a node is held for it while victims leave",
        "it is nominated for that node, and keeps its gate",
        lambda pod, wanted, written: _is_to_be_held(pod, wanted, written),
        lambda pod, wanted: Nominate(pod, wanted.held),
    ),
    Rule("it has no place", "nothing", lambda pod, wanted, written: not wanted.node),
    Rule("it is being deleted", "nothing", lambda pod, wanted, written: pod.deleting),
    Rule("its node has been written", "nothing", lambda pod, wanted, written: written.node == wanted.node),
    Rule(
        "its gang has to gather first, or other pods with claims come first on its node",
        "nothing",
        lambda pod, wanted, written: not wanted.may_start,
    ),
    Rule(
        "it is direct",
        "it is bound",
        lambda pod, wanted, written: pod.direct,
        lambda pod, wanted: Bind(pod, wanted.node),
    ),
    Rule(
        "kube-scheduler's filters judge it",
        "it is nominated, and loses its gate",
        lambda pod, wanted, written: True,
        lambda pod, wanted: Steer(pod, wanted.node),
    ),
)
"""The first rule that holds decides."""


def reconcile(pod: Pod, wanted: Wanted, written: Written) -> Action | None:
    """Return the write that a pod needs now, None if it needs none or if one is under way."""
    return next(rule for rule in RULES if rule.holds(pod, wanted, written)).write(pod, wanted)


def _is_to_be_cleared(pod: Pod, wanted: Wanted, written: Written) -> bool:
    if wanted.node or pod.nominated in ("", wanted.held):
        return False
    return written.node != "" or written.is_shown(pod)


def _is_to_be_held(pod: Pod, wanted: Wanted, written: Written) -> bool:
    if wanted.node or not wanted.held or not pod.withheld or pod.nominated == wanted.held or pod.deleting:
        return False
    return written.node != wanted.held or written.is_shown(pod)


def after(written: Written, action: Action) -> Written:
    """Return what counts as written once ``action`` is decided."""
    match action:
        case Bind(_, node):
            return replace(written, node=node, revision=UNANSWERED, binding=True)
        case Steer(_, node) | Nominate(_, node):
            return replace(written, node=node, revision=UNANSWERED)
        case _:
            return written


def is_cleared(pod: Pod, place: str, written: Written) -> bool:
    """Return whether somebody else has changed the nomination of a pod for which its ``place`` was written."""
    if pod.expected or pod.direct or written.node != place or not written.is_shown(pod):
        return False
    return pod.nominated != place
