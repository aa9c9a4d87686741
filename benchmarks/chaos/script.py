"""A script of disturbances from a seed: the same seed gives the same script, on any machine.

What is alive is reckoned from the script's own deeds, never from what really happened, so that the outcome of one deed
doesn't change the next.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from benchmarks.chaos.deeds import (
    OURS,
    Create,
    Cut,
    Deed,
    Delete,
    Disturb,
    Edit,
    Form,
    Hit,
    How,
    NodeChange,
    Process,
)

NODES = tuple(f"chaos-{number}" for number in range(6))
NODE_CORES = 8
DEVICES = 3
MOST_ALIVE = 12

WEIGHTS = {
    Process.EXTENDER: 10,
    Process.SCHEDULER: 6,
    Process.API_SERVER: 6,
    Process.ETCD: 2,
    Process.KWOK: 1,
    Process.MANAGER: 1,
    Process.OTHER_SCHEDULER: 1,
}
"""How often each process is hit, relative to the others."""


@dataclass(frozen=True, slots=True)
class Step:
    """A deed, and the seconds to let pass before it."""

    pause: float
    deed: Deed


@dataclass(frozen=True, slots=True)
class Round:
    """What happens between two quiet points."""

    number: int
    steps: tuple[Step, ...]


def script(seed: int, kills: int, replicas: int = 1) -> list[Round]:
    """Rounds of one to four disturbances among the comings and goings of workloads, ``kills`` in all."""
    author = _Author(random.Random(seed), replicas)
    rounds: list[Round] = []
    while kills > 0:
        count = min(kills, author.rng.randint(1, 4))
        rounds.append(Round(len(rounds), tuple(author.round(count))))
        kills -= count
    return rounds


@dataclass(slots=True)
class _Author:
    rng: random.Random
    replicas: int
    alive: list[str] = field(default_factory=list)
    created: int = 0

    def round(self, disturbances: int) -> list[Step]:
        deeds: list[Deed] = [self._user() for _ in range(self.rng.randint(3, 8))]
        for _ in range(disturbances):
            # Not before the first workload: a disturbance of nothing shows nothing.
            deeds.insert(self.rng.randint(1, len(deeds)), self._disturbance())
        return [Step(round(self._pause(), 2), deed) for deed in deeds]

    def _pause(self) -> float:
        """Mostly short enough to fall into the middle of what went before."""
        return self.rng.choice((0.0, self.rng.uniform(0.0, 0.2), self.rng.uniform(0.2, 1.5)))

    def _user(self) -> Deed:
        if len(self.alive) >= MOST_ALIVE or (self.alive and self.rng.random() < 0.3):
            return self._delete()
        return self._create()

    def _create(self) -> Create:
        form = self.rng.choice((*OURS, Form.LABELLED, Form.FOREIGN))
        self.created += 1
        name = f"w{self.created:03}"
        self.alive.append(name)
        members = self.rng.randint(1, 2 if form is Form.QUANTUM else 12)
        millicores = self.rng.choice((500, 1000, 1000, 2000))
        seconds = self.rng.choice((0, 0, 2, 8))
        return Create(name, form, members, millicores, seconds)

    def _delete(self) -> Delete:
        name = self.rng.choice(self.alive)
        one, force = self.rng.random() < 0.2, self.rng.random() < 0.5
        if not one:
            self.alive.remove(name)
        return Delete(name, one, force)

    def _disturbance(self) -> Deed:
        return self.rng.choices((self._hit, self._cut, self._disturb, self._edit), (60, 15, 20, 5))[0]()

    def _hit(self) -> Hit:
        process = self.rng.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]
        how = self.rng.choices(tuple(How), (5, 2, 3))[0]
        seconds = self.rng.choice((0.0, 1.0, 3.0, 8.0))
        return Hit(process, how, max(seconds, 1.0 if how is How.FREEZE else 0.0), self._replica(process))

    def _cut(self) -> Cut:
        process = self.rng.choice((Process.EXTENDER, Process.EXTENDER, Process.SCHEDULER))
        return Cut(process, self.rng.choice((0.0, 0.0, 4.0, 10.0)), self._replica(process))

    def _replica(self, process: Process) -> int:
        ours = process in (Process.EXTENDER, Process.SCHEDULER)
        return self.rng.randrange(self.replicas) if ours else 0

    def _disturb(self) -> Disturb:
        return Disturb(
            self.rng.choice(NODES), self.rng.choice(tuple(NodeChange)), self.rng.choice((1.0, 4.0, 8.0))
        )

    def _edit(self) -> Edit:
        return Edit(self.rng.randint(0, DEVICES), self.rng.random() < 0.4, self.rng.choice((1.0, 6.0)))
