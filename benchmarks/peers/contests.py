"""What a scheduler does with gangs that compete, that are mixed, or that can't fit: what is bound, and what users read.

Each gang here needs a large part of the cluster. Bound pods of a gang that isn't whole hold nodes for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from benchmarks.peers.notices import Notice, Notices
from benchmarks.throughput.bindings import Bindings
from benchmarks.throughput.contenders import Contender
from benchmarks.throughput.measure import QUIET, WRITERS, Bench, load_now
from benchmarks.throughput.workloads import Workload
from tests.localcluster import Api

CORES = 32
"""The cores of a node."""

SETTLED = 5.0
"""Seconds without a binding after which a gang that isn't whole while another one is waits for it to end."""

STUCK = 20.0
"""Seconds without a binding after which pods that are bound in part are taken to stay so."""

CALM = 15.0
"""Seconds without a new notice after which users are taken to know all that they will be told."""

PATIENCE = 90.0
RUN_FOR = "demo.fluence.flux-framework.org/run-for"
"""The annotation by which a played pod succeeds."""

HALVES, MIXED, TOO_LARGE = "halves", "mixed", "too-large"


def contests(nodes: int) -> dict[str, Workload]:
    """Return the gangs of each contest for a cluster of that size.

    The mixed gang needs 80 % of the cluster: two fifths of the nodes whole, and as much in quarters of nodes. Its small
    members are created first.
    """
    whole = nodes * 2 // 5
    return {
        HALVES: Workload(
            HALVES, "two gangs of 60 %", 2, nodes * 3 // 5, shapes=((nodes, CORES),), alternate=True
        ),
        MIXED: Workload(
            MIXED, "a mixed gang", 1, 5 * whole, shapes=((4 * whole, CORES // 4), (whole, CORES))
        ),
        TOO_LARGE: Workload(TOO_LARGE, "a gang that can't fit", 1, nodes + 1, shapes=((nodes + 1, CORES),)),
    }


@dataclass(slots=True)
class Contest:
    """How it went: seconds count from the first pod's creation.

    ``bound`` are each gang's bound members once nothing moved any more, ``whole`` the seconds until each gang was whole
    (None where it never was). ``freed`` are those until the first gang's members began to succeed, which happens once
    it is whole and nothing moves. ``told`` are the notices of a gang that doesn't fit.
    """

    nodes: int
    contender: str
    contest: str
    size: int
    bound: list[int]
    whole: list[float | None]
    load: float
    freed: float | None = None
    told: list[Notice] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, str, str]:
        """The key of a contest."""
        return self.nodes, self.contest, self.contender


@dataclass(frozen=True, slots=True)
class Standing:
    """The bindings of each gang, and when the last one was seen."""

    times: tuple[tuple[float, ...], ...]
    size: int

    @property
    def bound(self) -> list[int]:
        """The bound members of each gang."""
        return [len(one) for one in self.times]

    @property
    def whole(self) -> list[bool]:
        """Whether each gang is whole."""
        return [len(one) >= self.size for one in self.times]

    def quiet(self, now: float) -> float:
        """Return the seconds since the last binding, 0 where there is none."""
        return now - max((max(one) for one in self.times if one), default=now)


def standing(seen: Mapping[str, float], workload: Workload) -> Standing:
    """Return the standing from the times at which pods were bound, by name."""
    times: dict[str, list[float]] = {workload.gang(number): [] for number in range(workload.gangs)}
    for pod, when in dict(seen).items():
        times[pod.rpartition("-")[0]].append(when)
    return Standing(tuple(tuple(sorted(one)) for one in times.values()), workload.size)


def settled(found: Standing, now: float) -> bool:
    """Return whether nothing is going to move any more, as far as bindings show."""
    if all(found.whole):
        return True
    if any(found.whole):
        return found.quiet(now) > SETTLED
    return found.quiet(now) > STUCK


class Arena:
    """Holds contests on the cluster of ``bench``, of so many ``nodes``."""

    def __init__(self, bench: Bench, api: Api, nodes: int) -> None:
        self._bench = bench
        self._api = api
        self._nodes = nodes

    def hold(self, contender: Contender, contest: str) -> Contest:
        """Hold one contest with one contender."""
        workload = contests(self._nodes)[contest]
        with self._bench.running(contender) as bindings:
            time.sleep(QUIET)
            began = time.monotonic()
            with Notices(self._api, self._paths(contender), began) as notices:
                self._bench.submit(contender, workload)
                if contest == TOO_LARGE:
                    _wait(lambda: _told(notices.found, time.monotonic() - began))
                    first = standing(bindings.seen, workload)
                else:
                    first = _settle(bindings, workload)
                told = notices.found
            last, freed = first, None
            if sum(first.whole) == 1 < len(first.whole):
                freed = time.monotonic() - began
                last = self._succeed(bindings, workload, first.whole.index(True))
            return Contest(
                nodes=self._nodes,
                contender=contender.name,
                contest=contest,
                size=workload.size,
                bound=first.bound,
                whole=[max(one) - began if len(one) >= workload.size else None for one in last.times],
                load=load_now(),
                freed=freed,
                told=told if contest == TOO_LARGE else [],
            )

    def _paths(self, contender: Contender) -> dict[str, str]:
        """Return the collections in which users read about their pods, by the kind of the objects."""
        paths = {
            "Pod": f"/api/v1/namespaces/{Bench.NAMESPACE}/pods",
            "Event": f"/apis/events.k8s.io/v1/namespaces/{Bench.NAMESPACE}/events",
        }
        if groups := contender.form.collection(Bench.NAMESPACE):
            paths["PodGroup" if groups.endswith("podgroups") else "Workload"] = groups
        return paths

    def _succeed(self, bindings: Bindings, workload: Workload, number: int) -> Standing:
        """Let the members of a gang succeed; return the standing once the others are whole, or `PATIENCE` is over."""
        pods = f"/api/v1/namespaces/{Bench.NAMESPACE}/pods"

        def end(member: int) -> None:
            path = f"{pods}/{workload.gang(number)}-{member}"
            self._api.patch(path, {"metadata": {"annotations": {RUN_FOR: "0s"}}})

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(end, range(workload.size)))
        _wait(lambda: all(standing(bindings.seen, workload).whole))
        return standing(bindings.seen, workload)


def _settle(bindings: Bindings, workload: Workload) -> Standing:
    _wait(lambda: settled(standing(bindings.seen, workload), time.monotonic()))
    return standing(bindings.seen, workload)


def _told(found: Sequence[Notice], now: float) -> bool:
    """Return whether there are notices, and none that is new."""
    return bool(found) and now - found[-1].after > CALM


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < deadline:
        time.sleep(0.25)
