"""The times and counts that bound a gang's life."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = float("inf")
"""A time that doesn't come."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All times are in seconds."""

    bind_wait: float = 20.0
    """How long a member waits at the barrier for the others; kube-scheduler's httpTimeout is 30."""

    same_node_tries: int = 2
    refusal_patience: float = 1.5
    barred_for: float = 30.0
    """So many refusals, the last at least ``refusal_patience`` after the first, bar a node for a pod for so long."""

    same_attempt: float = 0.8
    """Refusals within this time of each other are one attempt."""

    vain_waits: int = 3
    """Once a member was refused, so many vain waits at the barrier count as a refusal too."""

    replans: int = 6
    rest: float = 30.0
    longest_refused_rest: float = 240.0
    """After so many changes of plan in a row, and one more for each further member, the gang rests for ``rest``.

    Each rest is twice as long as the one before, up to this limit, but ends early when a node changes.
    """

    unasked: float = 45.0
    longest_rest: float = 600.0
    """A steered member that was refused, and that kube-scheduler hasn't requested for ``unasked``, is given up.

    Its gang rests twice as long each time, up to this limit.
    """

    completion: float | None = 300.0
    """A gang that has begun and can't be completed in this time is evicted; with None, never."""

    assembly: float | None = 300.0
    """A gang that doesn't assemble in this time is reported as timed out; with None, never."""

    announce_after: float = 1.5
    """A reason is announced once it has stood for so long."""

    announced_members: int = 32
    """The first so many members of a gang carry its announcements."""

    leaving: float = 300.0
    """A pod that was evicted for a preemptor and is still there after this time no longer counts as departing."""

    preempt_again: float = 1.0
    """The time between two searches for victims for one gang."""

    search_step: int = 10_000
    """What a step may spend on searches for victims: the nodes of all trials, or a twelfth as many pods looked at."""

    handed: float = 20.0
    """How long kube-scheduler may take to bind a member itself after it was given the member's node."""
