"""The times and counts that bound a gang's life."""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.model.resources import NOTHING, Resources

NEVER = float("inf")
"""A time that doesn't come."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All times are in seconds."""

    binds_direct: bool = True
    """Whether the service binds pods that a node alone decides; without it, kube-scheduler's filters judge all pods."""

    bind_wait: float = 20.0
    """How long a member waits at the barrier for the others. kube-scheduler's httpTimeout is 30."""

    same_node_tries: int = 2
    refusal_patience: float = 1.5
    excluded_for: float = 30.0
    """When a node is excluded for a pod, and for how long.

    It is excluded for ``excluded_for`` after ``same_node_tries`` refusals, of which the last comes at least
    ``refusal_patience`` after the first. A pod whose eviction was refused counts as departing for
    ``excluded_for``, too, and victims that a disruption budget protects aren't chosen again for as long.
    """

    same_attempt: float = 0.8
    """Refusals within this time of each other are one attempt."""

    replans: int = 6
    replanned_for: float = 15.0
    back_off: float = 30.0
    longest_back_off: float = 300.0
    """When a gang backs off, and for how long: for ``back_off``, after ``replans`` changes of plan in a row.

    Each member beyond the first allows one more change, but all changes have to come within ``replanned_for`` seconds,
    because the gang holds its places meanwhile. Each back-off is twice as long as the one before, up to
    ``longest_back_off``, but ends early when a node changes. The time for changes also doubles, up to 16 times its
    first value, so a gang that needs many changes has that time in the end.
    """

    unasked: float = 45.0
    """A steered member that was refused loses its place if kube-scheduler hasn't requested its node for this time.

    Its gang backs off as above.
    """

    completion: float | None = 300.0
    """A gang that has begun and can't be completed in this time is evicted; with None, never."""

    assembly: float | None = 300.0
    """A gang that doesn't assemble in this time is reported as timed out; with None, never."""

    announce_after: float = 1.5
    """A reason is announced once it has held for this time."""

    announced_members: int = 32
    """The announcements of a gang are made on this number of its members, the first ones."""

    leaving: float = 300.0
    """A pod that was evicted for a preemptor counts as departing for this time at most."""

    preempt_again: float = 1.0
    """The time between two searches for victims for one gang."""

    uncreated: float = 120.0
    """A Job that was resumed with a plan is suspended again if it doesn't get its pods within this time.

    Its queue may state another time.
    """

    grow_after: float | None = None
    """A gang that has lacked nodes for this time asks autoscalers for them; with None, none does."""

    largest_node: Resources = NOTHING
    """The size of the largest node that autoscalers would add. It matters if the cluster has no node of that size."""

    grow_within: float = 1200.0
    grow_again: float = 3600.0
    """A gang that asks for nodes and isn't placed within the first time stops asking, and asks again after the second.

    Cluster Autoscaler waits 15 minutes for a node, and tries another node group then.
    """

    told_again: float = 5.0
    """A condition whose write has failed is written again after this time."""
