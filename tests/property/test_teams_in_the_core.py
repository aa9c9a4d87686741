"""Teams that borrow from each other and take back, on a whole cluster in virtual time.

Whatever they submit, end and relabel, and whenever the service restarts: no quota is exceeded at any step, what was
taken is submitted again and yet everything comes to rest, and then nobody waits for what his queue is guaranteed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.objects.queues import Queue, QueuePreemption, Quota, Reclaim
from tests.core.shapes import allocatable, requests
from tests.core.world import World

EXAMPLES = max(settings().max_examples // 10, 5)
CORES = 8
ROUNDS = 40
BACK = QueuePreemption(Reclaim.BORROWED)
TEAMS = ("keeps", "a", "b", "c", "free")
GUARANTEED = {"keeps": 2, "a": 2, "b": 1, "c": 1, "free": 0}
LIMITS = {"a": 5, "lab": 5}
PARENTS = {"b": "lab", "c": "lab"}


def cores(amount: int) -> dict[str, int]:
    return {"cpu": amount * 1000}


def queues() -> Iterator[Queue]:
    """Two levels; one team lends nothing, one has a limit, two share that of their parent, one has nothing."""
    yield Queue("lab", quota=Quota(cores(3), cores(LIMITS["lab"])), uid="lab")
    for name in TEAMS:
        guaranteed = cores(GUARANTEED[name]) if GUARANTEED[name] else {}
        limit = cores(LIMITS[name]) if name in LIMITS else {}
        quota = Quota(guaranteed, limit, cores(0) if name == "keeps" else {})
        stated = BACK if guaranteed else QueuePreemption()
        yield Queue(name, parent=PARENTS.get(name, ""), quota=quota, preemption=stated, uid=name)


@dataclass
class Teams:
    """The cluster, and what the teams have submitted: by gang its queue, size and priority."""

    world: World
    gangs: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)

    def create(self, name: str) -> None:
        """Create the pods of a gang, as its controller does also once they were evicted."""
        queue, size, priority = self.gangs[name]
        self.made[name] += 1
        for number in range(size):
            self.world.pod(
                f"{name}-{self.made[name]}-{number}",
                labels={GROUP_LABEL: name, QUEUE_LABEL: queue},
                annotations={GROUP_SIZE_ANNOTATION: str(size)},
                requests=requests(1000, 0),
                priority=priority,
            )

    def end(self, name: str) -> None:
        """End a gang."""
        del self.gangs[name]
        for pod in list(self.world.cluster.pods()):
            if pod.name.startswith(f"{name}-"):
                self.world.cluster.remove(pod)

    def relabel(self, name: str, queue: str) -> None:
        """Name another queue on pods of a gang, whether they run or wait."""
        self.gangs[name] = (queue, *self.gangs[name][1:])
        for pod in list(self.world.cluster.pods()):
            if pod.name.startswith(f"{name}-"):
                self.world.change(pod, labels={**pod.labels, QUEUE_LABEL: queue})

    def rest(self) -> None:
        """Let everything happen that follows, and submit again what was taken, until nothing more happens."""
        quiet = 0
        for _ in range(ROUNDS):
            before = self.world.cluster.revision
            self.world.cluster.reap()
            there = {pod.labels[GROUP_LABEL] for pod in self.world.cluster.pods()}
            for name in [one for one in self.gangs if one not in there]:
                self.create(name)
            self.world.advance(3.0)
            for pod in self.world.cluster.pods():
                if pod.node and not pod.started and not pod.deleting:
                    self.world.change(pod, started=self.world.loop.time(), phase="Running")
            quiet = quiet + 1 if self.world.cluster.revision == before else 0
            if quiet == 3:
                return
        raise AssertionError("it never comes to rest")

    def charged(self) -> Counter[str]:
        """How many cores pods have that are placed, by the queue in which they got their places."""
        found: Counter[str] = Counter()
        for gang, member in self.world.controller.registry.members():
            if member.pod.finished or not (member.pod.node or member.assignment is not None):
                continue
            place = self.world.controller.queue.admission.usage.place(gang.key)
            queue = member.charged or (place.queue if place is not None else "")
            found[queue] += 1
            found[PARENTS.get(queue, "")] += 1
        return found

    @contextmanager
    def watched(self, world: World) -> Iterator[None]:
        """No step gives a place beyond a limit, or one of those that a queue keeps."""
        yield
        used = self.charged()
        for name, most in LIMITS.items():
            assert used[name] <= most, (name, used)
        used.pop("", None)
        together = max(used["keeps"], GUARANTEED["keeps"]) + used["a"] + used["lab"] + used["free"]
        assert together <= CORES, used

    def owners_have_their_places(self) -> None:
        """Nobody waits whose queue stays within its guarantee with him."""
        used = self.charged()
        for gang in self.world.controller.registry.gangs.values():
            place = self.world.controller.queue.admission.usage.place(gang.key)
            if place is None or place.runs or not GUARANTEED.get(place.queue, 0):
                continue
            assert used[place.queue] + len(gang.alive()) > GUARANTEED[place.queue], (gang.key, gang.reason)


numbers = st.integers(0, 20)
submitted = st.tuples(
    st.just("submit"), st.sampled_from(TEAMS), st.integers(1, 3), st.sampled_from([0, 0, 10])
)
actions = st.lists(
    st.one_of(
        submitted,
        submitted,
        st.tuples(st.just("end"), numbers, st.just(0), st.just(0)),
        st.tuples(st.just("relabel"), numbers, st.sampled_from(TEAMS), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([0.05, 0.5, 3.0]), st.just(0), st.just(0)),
    ),
    min_size=4,
    max_size=14,
)


@settings(deadline=None, max_examples=EXAMPLES)
@given(actions)
def test_teams_get_back_what_they_are_guaranteed_and_no_quota_is_exceeded(history: list[tuple]) -> None:  # type: ignore[type-arg]
    world = World(Node("n0", allocatable=allocatable(CORES, 64, 0)), *queues())
    teams = Teams(world)
    world.around_steps = teams.watched
    try:
        for number in range(CORES):
            # Whoever comes has to take back.
            teams.gangs[f"first{number}"] = ("free", 1, 0)
            teams.create(f"first{number}")
        world.advance(1.0)
        for number, (what, one, two, three) in enumerate(history):
            names = sorted(teams.gangs)
            if what == "submit":
                teams.gangs[f"g{number}"] = (one, two, three)
                teams.create(f"g{number}")
            elif what == "end" and names:
                teams.end(names[one % len(names)])
            elif what == "relabel" and names:
                teams.relabel(names[one % len(names)], two)
            elif what == "restart":
                world.restart()
            elif what == "wait":
                world.advance(one)
            if number % 4 == 3:
                teams.rest()
                teams.owners_have_their_places()
        teams.rest()
        teams.owners_have_their_places()
    finally:
        world.close()
