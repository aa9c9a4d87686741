"""Who may write, by the Lease alone: whatever hangs and however late answers are, never two.

Some pods of a kube-scheduler and an extender each. Schedulers keep client-go's rules and no others: who holds the Lease
may renew it as late as it likes, or let it go; it is taken by whoever finds it free, or has seen no renewal for its
duration. Extenders ask for it as `ByLease` is used, but any of the three moments of a question (asked, read, answered)
may come as late as can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from fluence_extender.cluster.port import Lease
from fluence_extender.gangs.leadership.lease import ByLease

DURATION = 15.0
RETRY = 2.0
PODS = 3
EVERY = 0.5
"""Seconds between two questions of an extender that is well."""

pods = st.integers(0, PODS - 1)


@dataclass
class Pod:
    """One pod; ``asked`` is when its extender asked the question that is under way, ``read`` what was found."""

    name: str
    leadership: ByLease
    hung: bool = False
    stalled: bool = False
    tried: float = 0.0
    seen: Lease | None = None
    seen_at: float = 0.0
    asked: float | None = None
    read: list[Lease | None] = field(default_factory=list)


class Pods(RuleBasedStateMachine):
    """Time stands still but in `time_passes` and `one_hangs`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.written = 0
        self.lease: Lease | None = None
        self.pods = [self._pod(f"fluence-{number}") for number in range(PODS)]

    def _pod(self, name: str) -> Pod:
        return Pod(name, ByLease(name, lambda: self.now))

    # kube-scheduler.

    def _write(self, holder: str) -> None:
        transitions = self.lease.transitions if self.lease is not None else 0
        if holder and self.lease is not None and self.lease.holder != holder:
            transitions += 1
        self.written += 1
        self.lease = Lease(holder, f"{self.written}", transitions, DURATION if holder else 1.0)

    def _stand(self, pod: Pod) -> None:
        """Renew the Lease, or take it where that is allowed."""
        pod.tried = self.now
        if self.lease != pod.seen:
            pod.seen, pod.seen_at = self.lease, self.now
        ours = f"{pod.name}_1"
        lease = self.lease
        if lease is None or lease.holder in ("", ours) or self.now - pod.seen_at >= lease.duration:
            self._write(ours)
            pod.seen, pod.seen_at = self.lease, self.now

    @rule(pod=pods)
    def scheduler_tries_now(self, pod: int) -> None:
        self._stand(self.pods[pod])

    @rule()
    def lease_is_let_go(self) -> None:
        if self.lease is not None and self.lease.holder:
            self._write("")

    @rule(pod=pods)
    def lease_goes_from_hand_to_hand(self, pod: int) -> None:
        self.lease_is_let_go()
        self._stand(self.pods[pod])

    @rule(pod=pods)
    def scheduler_stalls_or_goes_on(self, pod: int) -> None:
        self.pods[pod].stalled = not self.pods[pod].stalled

    @rule()
    def holder_stalls(self) -> None:
        for pod in self.pods:
            pod.stalled = pod.stalled or self._holds(pod)

    def _holds(self, pod: Pod) -> bool:
        return self.lease is not None and self.lease.holder == f"{pod.name}_1"

    # Extenders.

    def _ask(self, pod: Pod) -> None:
        if pod.asked is None:
            pod.asked = self.now

    def _read(self, pod: Pod) -> None:
        if pod.asked is not None and not pod.read:
            pod.read.append(self.lease)

    def _answer(self, pod: Pod) -> None:
        if pod.asked is not None and pod.read:
            pod.leadership.saw(pod.read.pop(), pod.asked)
            pod.asked = None

    @rule(pod=pods, steps=st.integers(1, 3))
    def extender_asks(self, pod: int, steps: int) -> None:
        """So far, or to the end."""
        self._question(self.pods[pod], steps)

    def _question(self, pod: Pod, steps: int = 3) -> None:
        for step in (self._ask, self._read, self._answer)[:steps]:
            step(pod)

    @rule(pod=pods)
    def extender_goes_on(self, pod: int) -> None:
        """What it has asked is answered."""
        self._read(self.pods[pod])
        self._answer(self.pods[pod])
        self.pods[pod].hung = False

    @rule(pod=pods)
    def extender_hangs(self, pod: int) -> None:
        self.pods[pod].hung = True

    @rule()
    def leader_hangs(self) -> None:
        for pod in self.pods:
            pod.hung = pod.hung or pod.leadership.leads

    @rule()
    def extender_is_replaced(self) -> None:
        """One that is well; the new one has seen nothing yet."""
        for number, pod in enumerate(self.pods):
            if not pod.hung and not pod.leadership.leads:
                self.pods[number] = replace(
                    pod, leadership=self._pod(pod.name).leadership, asked=None, read=[]
                )
                return

    # Both.

    @rule(seconds=st.sampled_from([0.1, 0.4, 0.8, 1.2]))
    def instants_pass(self, seconds: float) -> None:
        """Nobody does anything meanwhile."""
        self.now += seconds

    @rule(seconds=st.sampled_from([1.0, 2.0, 4.0, 9.0, 10.5, 15.0]))
    def time_passes(self, seconds: float) -> None:
        for _ in range(int(seconds / EVERY)):
            self.now += EVERY
            for pod in self.pods:
                if not pod.stalled and self.now - pod.tried >= RETRY:
                    self._stand(pod)
                if not pod.hung:
                    self._question(pod)
            self.at_most_one_writes()

    @rule(
        unseen=st.booleans(),
        silence=st.sampled_from([5.5, 7.5, 10.0, 10.5, 13.0]),
        late=st.booleans(),
        then=st.sampled_from([0.0, 0.5, 1.5, 2.0, 3.0]),
        blind=st.booleans(),
        free=st.booleans(),
        other=pods,
    )
    def lead_changes_hands_after_a_silence(
        self, unseen: bool, silence: float, late: bool, then: float, blind: bool, free: bool, other: int
    ) -> None:
        """The holder renews the Lease once where its extender doesn't see it, not for some time, perhaps once more.

        The others ask on all the time, or miss the end. As the Lease is let go (or has run out) the extender of who had
        it hangs.
        """
        holder = next((pod for pod in self.pods if self._holds(pod)), None)
        if holder is None or self.pods[other] is holder:
            return
        holder.hung = unseen
        self._stand(holder)
        for pod in self.pods:
            self._stand(pod)
            pod.stalled = True
        self.time_passes(silence)
        for pod in self.pods:
            pod.hung = blind and pod is not holder
        if late:
            self._stand(holder)
        self.time_passes(then)
        self._question(holder)
        holder.hung = True
        if free:
            self.lease_is_let_go()
        self._stand(self.pods[other])
        self.pods[other].hung = False
        self.time_passes(3.0)

    @invariant()
    def at_most_one_writes(self) -> None:
        # A lead begins with an answer and never by the clock alone: to look after each of them is enough.
        leaders = [pod.name for pod in self.pods if pod.leadership.leads]
        assert len(leaders) <= 1, leaders

    def teardown(self) -> None:
        """Once all are well one of them leads."""
        for number, pod in enumerate(self.pods):
            pod.stalled = False
            self.extender_goes_on(number)
        self.time_passes(25.0)
        assert sum(pod.leadership.leads for pod in self.pods) == 1


def test_never_two_may_write_whatever_hangs() -> None:
    run_state_machine_as_test(
        Pods,
        settings=settings(max_examples=4 * settings().max_examples, stateful_step_count=40, deadline=None),
    )
