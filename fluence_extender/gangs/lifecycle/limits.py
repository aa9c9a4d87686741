"""The times and counts that bound a gang's life, all in seconds unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """``bind_wait``: how long a member waits at the barrier for the others (kube-scheduler's httpTimeout is 30).

    ``same_node_tries`` refusals, the last at least ``refusal_patience`` after the first, bar a node for a pod for
    ``barred_for``; after ``replans`` changes of plan in a row, and one more for each further member, the gang rests
    for ``rest``, twice as long each time up to ``longest_refused_rest``, but no longer than until a node changes.
    Refusals within ``same_attempt`` of each other are one. Once one was refused, ``vain_waits`` waits at
    the barrier count as a refusal too. A steered member that was refused and not asked for in ``unasked`` is given up,
    and its gang rests twice as long each time, up to ``longest_rest``. A gang that was begun and can't be completed
    within ``completion`` is evicted (never if that is None); one that doesn't assemble within ``assembly`` is told so.
    A reason is announced once it has stood for ``announce_after``, by the first ``announced_members`` of a gang. A pod
    that was evicted to make way and hasn't gone after ``leaving`` is no longer reckoned with; ``preempt_again`` is the
    time between two searches for victims for one gang, ``search_step`` is what a step may spend on them: the nodes of
    all trials, or a twelfth as many pods that are looked at. ``handed`` is how long kube-scheduler may take to bind a
    member itself after it was told its node.
    """

    bind_wait: float = 20.0
    same_node_tries: int = 2
    refusal_patience: float = 1.5
    same_attempt: float = 0.8
    vain_waits: int = 3
    barred_for: float = 30.0
    replans: int = 6
    rest: float = 30.0
    completion: float | None = 300.0
    assembly: float | None = 300.0
    unasked: float = 45.0
    longest_rest: float = 600.0
    longest_refused_rest: float = 240.0
    announce_after: float = 1.5
    announced_members: int = 32
    leaving: float = 300.0
    preempt_again: float = 1.0
    search_step: int = 10_000
    handed: float = 20.0
