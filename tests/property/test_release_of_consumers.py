"""Consumers of a quantum task are released in spite of API errors, kills, late consumers and a misbehaving vendor.

Pods in memory are served to sidecars that are killed and started again at any call, as the kubelet does, and to the
decisions about late consumers. At the end everything works, and then every consumer must be released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import Listed
from fluence_extender.coordination import sidecar as module
from fluence_extender.coordination.guarded_queue import GuardedQueue
from fluence_extender.coordination.late import PATIENCE, REPEAT, LateConsumers
from fluence_extender.coordination.options import Options
from fluence_extender.coordination.provider import ProviderError, TaskState, TaskStatus
from fluence_extender.coordination.release import recorded_verdict
from fluence_extender.coordination.sidecar import Sidecar
from fluence_extender.model.coordination import QUANTUM_JOB_ID_ANNOTATION, RELEASED_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.unit.coordination.fake_pods import FakePods, consumer, producer

OPTIONS = Options(
    "uid-lead",
    "lead",
    "ns",
    "g",
    discovery=3600.0,
    poll=0.0005,
    look=0.0005,
    ungate=0.2,
    call=5.0,
    silence=3600.0,
)
QUEUED, RUNNING = TaskStatus(TaskState.QUEUED, 4), TaskStatus(TaskState.RUNNING)

OK, FAIL, KILL, JOIN = "ok", "fail", "kill", "join"
steps = st.lists(st.sampled_from([OK, OK, OK, FAIL, FAIL, KILL, JOIN]), max_size=40)
words = st.lists(
    st.sampled_from([QUEUED, QUEUED, None, "lie", ProviderError("HTTP 500"), ValueError("a bug")]), max_size=8
)


class Killed(BaseException):
    """SIGKILL, as seen from within a call."""


@dataclass
class Vendor:
    says: list[Any]
    ready: bool = False

    def find_my_tasks(self, pod_uid: str) -> Any:
        return self._next(["task"])

    def status(self, task: str) -> Any:
        answer = self._next(RUNNING)
        self.ready = self.ready or answer == RUNNING
        return answer

    def _next(self, usual: Any) -> Any:
        word = self.says.pop() if self.says else usual
        if isinstance(word, Exception):
            raise word
        return word


@dataclass
class World:
    """The pods, the vendor, and what the coming calls meet."""

    vendor: Vendor
    script: list[str]
    pods: FakePods = field(
        default_factory=lambda: FakePods({"lead": producer(), "a": consumer("a"), "b": consumer("b")})
    )
    early: list[str] = field(default_factory=list)
    joined: int = 0

    def __post_init__(self) -> None:
        self.pods.fault = self.meet
        self.pods.seen = self.check

    def meet(self, verb: str, name: str) -> None:
        match self.script.pop() if self.script else OK:
            case "fail":
                raise ClusterError(f"{verb} {name}: HTTP 500", 500)
            case "kill":
                raise Killed
            case "join":
                self.joined += 1
                late = f"late-{self.joined}"
                self.pods.pods[late] = consumer(late)

    def check(self, verb: str, name: str) -> None:
        """Note consumers released before the task was ready or before the decision was recorded on the producer."""
        if verb == "release" and (not self.vendor.ready or recorded_verdict(self.pods.pods["lead"]) is None):
            self.early.append(name)

    async def live(self) -> None:
        """Run sidecars, one after the other, until the script is empty and no consumer is gated."""
        for _ in range(100):
            one = Sidecar(OPTIONS, self.pods, GuardedQueue(lambda: self.vendor, OPTIONS.call))
            running = asyncio.create_task(one.run())
            while not running.done() and (self.script or self.pods.gated()):  # noqa: ASYNC110
                await asyncio.sleep(0.0005)
            if running.done():
                with pytest.raises(Killed):
                    await running
                continue
            one.stop()
            try:
                assert await running == 0
            except Killed:
                continue
            return
        raise AssertionError("it never came to an end")


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "FIRST_PAUSE", 0.0005)
        patched.setattr(module, "LONGEST_PAUSE", 0.001)
        yield


@given(steps, words)
def test_every_consumer_is_released_once_the_task_is_ready_and_none_before(
    script: list[str], says: list[Any]
) -> None:
    world = World(Vendor(list(says)), list(script))
    asyncio.run(world.live())
    assert not world.early
    assert not world.pods.gated()
    for name, pod in world.pods.pods.items():
        if name != "lead":
            assert pod.annotations[QUANTUM_JOB_ID_ANNOTATION] == "task"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["lead ends", "lead goes", "lead decides", "lead comes", "join", "leave", "relist"]
            ),
            st.floats(0, 2 * PATIENCE),
        ),
        max_size=25,
    )
)
def test_no_late_consumer_is_released_before_a_living_producer_has_decided(
    happenings: list[tuple[str, float]],
) -> None:
    now = [0.0]
    late = LateConsumers(lambda: now[0])
    pods: dict[str, Pod] = {"lead": producer(), "a": consumer("a")}
    for number, (what, seconds) in enumerate(happenings):
        lead = pods.get("lead")
        match what:
            case "lead ends" if lead is not None:
                pods["lead"] = replace(lead, phase="Failed")
            case "lead goes":
                pods.pop("lead", None)
            case "lead decides" if lead is not None:
                decided: Mapping[str, str] = {
                    RELEASED_ANNOTATION: f"x (pod {lead.uid})",
                    QUANTUM_JOB_ID_ANNOTATION: "t",
                }
                pods["lead"] = replace(lead, annotations={**lead.annotations, **decided})
            case "lead comes":
                pods["lead"] = producer(uid=f"uid-{number}")
            case "join":
                pods[f"c{number}"] = consumer(f"c{number}")
            case "leave":
                pods.pop("a", None)
        late.observe(Listed(Pod, tuple(pods.values())))
        released = {one.pod.name: one.annotations for one in late.releases(("ns", "g"))}
        assert released.keys() <= pods.keys()
        lead = pods.get("lead")
        if lead is not None and not lead.finished and recorded_verdict(lead) is None:
            assert not released
        now[0] += seconds
    # A producer that decides settles it for all.
    pods["lead"] = producer(uid="uid-last", annotations={RELEASED_ANNOTATION: "x (pod uid-last)"})
    now[0] += REPEAT
    late.observe(Listed(Pod, tuple(pods.values())))
    assert {one.pod.name for one in late.releases(("ns", "g"))} == pods.keys() - {"lead"}
