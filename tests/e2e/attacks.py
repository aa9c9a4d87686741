"""What a user with the role ``edit`` in one namespace may try against all others.

Each attack takes a scene, and creates or changes what the user may. It runs until it is done, or until the scene is
over.
"""

from __future__ import annotations

import os
import random
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from itertools import count
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from fluence_extender.model.coordination import COORDINATION_ANNOTATION, SHARED
from fluence_extender.model.names import AFTER_ANNOTATION, HOLD_ANNOTATION, QUEUE_LABEL
from tests.e2e.claimed import DRIVER, RESOURCE, claiming, device_class, request, shared_claim
from tests.e2e.harness import Manifest, Namespace
from tests.e2e.queue_objects import PATHS, queue_object
from tests.e2e.workloads import QPU, indexed_job, labelled, ours, pod_group
from tests.localcluster import Api, ApiError
from tests.localcluster.stack import unverified
from tests.unit.webhook.reviews import written

FULL = os.environ.get("ATTACKS") == "full"
"""Whether attacks have their full size, as `make attacks` runs them."""

WRITERS = 8
"""Connections with which the user writes at the same time."""

MOST_CHARACTERS = 127
DEVICES = 32
QUEUES = 60


@dataclass(slots=True)
class Scene:
    """The user's access to the namespace, the administrator's access to the cluster, and the service's address."""

    user: Namespace
    admin: Api
    url: str
    over: threading.Event = field(default_factory=threading.Event)
    made: list[str] = field(default_factory=list)
    """Paths of objects outside namespaces, which are deleted at the end."""

    def create(self, manifests: Iterable[Manifest]) -> int:
        """Create objects as the user, several at a time, until the scene is over; return how many are created."""
        with ThreadPoolExecutor(WRITERS) as pool:
            return sum(pool.map(self._create, manifests))

    def _create(self, manifest: Manifest) -> bool:
        if self.over.is_set():
            return False
        try:
            self.user.create(manifest)
        except ApiError as error:
            if self.over.is_set() or error.status in (0, 429, 504):
                return False
            raise
        return True

    def install(self, *manifests: Manifest) -> None:
        """Create objects of the cluster, as its administrator."""
        for manifest in manifests:
            self.admin.create(manifest)
            self.made.append(self.admin.path_of(manifest))

    def clear(self) -> None:
        """Remove what the administrator installed."""
        for path in reversed(self.made):
            with suppress(ApiError):
                self.admin.delete(path)


Attack = Callable[[Scene, int], object]


@dataclass(frozen=True, slots=True)
class Case:
    """An attack and its sizes; ``prepare`` is what the administrator has installed before it.

    ``excepted`` is true where docs/security.md names it as an exception from what holds whenever it is tried.
    """

    name: str
    attack: Attack
    short: int
    full: int
    prepare: Callable[[Scene], None] = lambda scene: None
    excepted: bool = False

    @property
    def size(self) -> int:
        """How large it is in this run."""
        return self.full if FULL else self.short


def idle(name: str, **metadata: Any) -> Manifest:
    """Return a pod of ours that asks for next to nothing."""
    return ours(name, cpu="1m", **metadata)


# What users program.


def install_devices(scene: Scene) -> None:
    """Install a class, and devices no two of which are alike."""
    node = scene.admin.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    devices = [
        {"name": f"gpu-{number}", "attributes": {f"a{i}": {"string": f"{number}-{i}"} for i in range(16)}}
        for number in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    scene.install(
        device_class("gpus"),
        {
            "apiVersion": RESOURCE,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-unlike"},
            "spec": spec,
        },
    )


def selector(number: int) -> str:
    """Return a selector that is true, reads much and takes many steps within its limits; no two are alike."""
    body = f'[1,2,3,4,5].all(x,[1,2,3,4,5].all(y,x+y<{number + 10}))&&device.attributes["{DRIVER}"].a0!=""'
    return body.ljust(MOST_CHARACTERS)


def claim_programs(scene: Scene, claims: int) -> None:
    """Create claims with as many selectors as a claim may have, and a pod for each of them."""
    unlike = count(random.randrange(10**9))
    for number in range(claims):
        requests = [
            request(f"r{one}", "gpus", *(selector(next(unlike)) for _ in range(30))) for one in range(4)
        ]
        scene.create([shared_claim(f"c{number}", *requests)])
        scene.create([claiming(idle(f"claims-{number}"), claim=f"c{number}")])


# What rules block.


def depend_on_each_other(scene: Scene, pods: int) -> None:
    """Create idle pods that each wait for 32 others, some in circles."""
    rng = random.Random(1)
    scene.create(
        idle(f"after-{number}", annotations={AFTER_ANNOTATION: ", ".join(waited_for(rng, pods))})
        for number in range(pods)
    )


def waited_for(rng: random.Random, pods: int) -> Iterator[str]:
    """Yield 32 dependencies on other idle pods."""
    return (f"ok:gang/after-{rng.randrange(pods)}" for _ in range(32))


def hold(scene: Scene, pods: int) -> None:
    """Create pods that their user holds, and change them all the time."""
    scene.create(idle(f"held-{number}", annotations={HOLD_ANNOTATION: "true"}) for number in range(pods))
    edit(scene, [f"/api/v1/namespaces/{scene.user.name}/pods/held-{number}" for number in range(pods)])


def edit(scene: Scene, paths: Sequence[str]) -> None:
    """Change an annotation of one object after another, 20 objects a second, until the scene is over."""
    for number in count():
        if scene.over.wait(0.05):
            return
        with suppress(ApiError):
            scene.user.api.patch(
                paths[number % len(paths)], {"metadata": {"annotations": {"note": str(number)}}}
            )


def edit_large_gang(scene: Scene, members: int) -> None:
    """Create a gang that fits nowhere, and change its members all the time."""
    scene.create(labelled(ours(f"m-{number}", cpu="10"), "large", members) for number in range(members))
    edit(scene, [f"/api/v1/namespaces/{scene.user.name}/pods/m-{number}" for number in range(members)])


def edit_large_job(scene: Scene, parallelism: int) -> None:
    """Create a Job of many pods that fits nowhere, and change it all the time."""
    scene.user.create(indexed_job("large", ours("x", cpu="10"), parallelism))
    edit(scene, [f"/apis/batch/v1/namespaces/{scene.user.name}/jobs/large"])


def ask_for_too_much(scene: Scene, pods: int) -> None:
    """Create pods that are ready and fit nowhere, no two of one shape."""
    scene.create(ours(f"large-{number}", cpu=str(1000 + number)) for number in range(pods))


def form_incomplete_gangs(scene: Scene, gangs: int) -> None:
    """Create gangs that wait for a member that nobody creates."""
    scene.create(labelled(idle(f"lone-{number}"), f"lone-{number}", 2) for number in range(gangs))


def make_pod_groups(scene: Scene, groups: int) -> None:
    """Create PodGroups, of which one in ten has a pod."""
    scene.create(pod_group(f"group-{number}", 2) for number in range(groups))
    scene.create(labelled(idle(f"of-{number}"), f"group-{number}") for number in range(0, groups, 10))


# Names of queues.


def install_queues(scene: Scene) -> None:
    """Install many Queues, one of them with a limit of time."""
    scene.install(*(queue_object("Queue", f"queue-{number}") for number in range(QUEUES)))
    scene.install(queue_object("Queue", "timed", maxDuration="1h"))


def name_many_queues(scene: Scene, names: int) -> None:
    """Create pods in queues that don't exist, while the administrator edits a Queue."""
    scene.create(idle(f"q-{number}", labels={QUEUE_LABEL: f"queue-{number}-x"}) for number in range(names))
    for number in range(4):
        change = {"spec": {"maxDuration": f"{number + 2}h"}}
        with suppress(ApiError):
            scene.admin.patch(f"{PATHS['Queue']}/timed", change)
        if scene.over.wait(1):
            return


# What is expected.


def announce_many_pods(scene: Scene, parallelism: int) -> None:
    """Create Jobs of many pods and delete them again."""
    path = f"/apis/batch/v1/namespaces/{scene.user.name}/jobs"
    for number in count():
        if scene.over.is_set():
            return
        made = indexed_job(f"many-{number}", ours("x", cpu="1"), parallelism)
        with suppress(ApiError):
            scene.user.create(made)
        time.sleep(0.25)
        with suppress(ApiError):
            scene.user.api.delete(f"{path}/many-{number}", propagationPolicy="Background")


# What anybody may send.


def send_tokens(scene: Scene, tokens: int) -> None:
    """Send random bearer tokens to the state API."""

    def send(_: int) -> None:
        headers = {"Authorization": f"Bearer {token_urlsafe(60)}"}
        if scene.over.is_set():
            return
        with suppress(OSError, HTTPException):
            urllib.request.urlopen(
                urllib.request.Request(f"{scene.url}/v1/gangs", headers=headers), timeout=5
            ).close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(send, range(tokens)))


def forge_reviews(scene: Scene, webhooks: Sequence[str]) -> None:
    """Send reviews that the API server hasn't made: large pods of new groups, over connections that stay open."""
    labels = {f"team-{number}": "x" * 60 for number in range(500)}

    def send(worker: int) -> None:
        host = urlsplit(webhooks[worker % len(webhooks)]).netloc
        while not scene.over.is_set():
            connection = HTTPSConnection(host, timeout=10, context=unverified())
            with suppress(OSError, HTTPException):
                for number in range(200):
                    shared = {COORDINATION_ANNOTATION: SHARED, **labels}
                    made = labelled(
                        ours("x", cpu="1", requests={QPU: 1}, annotations=shared), f"g{number}", 2
                    )
                    connection.request("POST", "/mutate", written(made), {"Content-Type": "application/json"})
                    connection.getresponse().read()
            connection.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(send, range(WRITERS)))


def make_large_pods(scene: Scene, count: int) -> None:
    """Create small pods with annotations of 200 KB: each write about one costs the API server as much as dozens."""
    note = {"example.com/note": "x" * 200_000}
    scene.create(ours(f"large-{number}", cpu="1m", annotations=note) for number in range(count))


CASES = (
    Case("programs in claims", claim_programs, 1, 20, install_devices),
    Case("dependencies", depend_on_each_other, 300, 2000),
    Case("held pods", hold, 300, 2000),
    Case("shapes that can't fit", ask_for_too_much, 300, 2000),
    Case("incomplete gangs", form_incomplete_gangs, 300, 2000),
    Case("PodGroups", make_pod_groups, 300, 5000),
    Case("names of queues", name_many_queues, 500, 5000, install_queues),
    Case("expected pods", announce_many_pods, 20_000, 20_000),
    Case("large gang that changes", edit_large_gang, 500, 10_000),
    Case("large Job that changes", edit_large_job, 15_000, 15_000),
    Case("large pods", make_large_pods, 60, 300, excepted=True),
    Case("bearer tokens", send_tokens, 500, 20_000),
)
