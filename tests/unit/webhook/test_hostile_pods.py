"""A pod that anybody may create doesn't keep the webhook busy: work is linear in its size, and its size is bounded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx
import pytest

from fluence_extender.model.coordination import OBSERVE_LABEL, STAGED
from fluence_extender.model.names import DOMAIN
from fluence_extender.model.requests import effective_requests
from fluence_extender.webhook.admission import Admission
from fluence_extender.webhook.contract import Outcome
from fluence_extender.webhook.declaration import Unfit, read_declaration
from fluence_extender.webhook.mutate import mutate
from fluence_extender.webhook.review import LARGEST_OBJECT, WARNING_LENGTH, encode_answer
from fluence_extender.webhook.server import LARGE
from fluence_extender.webhook.validity import MOST_AMOUNTS, MOST_CONTAINERS, MOST_ENTRIES
from tests.core.growth import assert_linear
from tests.unit.webhook.pods import ALL, CONTEXT, QPU, REQUEST, applied, container, grouped, pod
from tests.unit.webhook.reviews import written
from tests.unit.webhook.test_server import Lookups, Service

Json = dict[str, Any]
ASKS = {QPU: "1"}


def amounts(count: int, begin: str = "a") -> dict[str, str]:
    return {f"x.io/{begin}{index}": str(index) for index in range(count)}


def sidecar(index: int, **fields: Any) -> Json:
    return container(f"s{index}", {f"x.io/s{index}": "1"}, restartPolicy="Always", **fields)


HOSTILE: Mapping[str, Callable[[int], Json]] = {
    "variables": lambda n: pod(container(asks=ASKS, env=[{"name": f"={i}"} for i in range(n)])),
    "variables of one name": lambda n: pod(
        container(asks=ASKS, env=[{"name": "PYTHONPATH", "value": "a:"}] * n)
    ),
    "credentials": lambda n: pod(
        container(asks=ASKS, env=[{"name": f"v{i}", "valueFrom": {"secretKeyRef": {}}} for i in range(n)]),
        labels={OBSERVE_LABEL: "true"},
    ),
    "containers": lambda n: pod(container(asks=ASKS), *(container(f"c{i}") for i in range(n))),
    "containers with mounts of ours": lambda n: pod(
        container(asks=ASKS),
        *(container(f"c{i}", volumeMounts=[{"name": "v", "mountPath": STAGED}]) for i in range(n)),
    ),
    "sidecars": lambda n: pod(container(asks=ASKS), initContainers=[sidecar(i) for i in range(n)]),
    "init containers after sidecars": lambda n: pod(
        container(asks=ASKS),
        initContainers=[*(sidecar(i) for i in range(n // 2)), *(container(f"i{i}") for i in range(n // 2))],
    ),
    "requests": lambda n: pod(container(asks={**ASKS, **amounts(n)})),
    "requests of many": lambda n: pod(
        *(container(f"c{i}", {**ASKS, **amounts(MOST_AMOUNTS - 4, f"{i}a")}) for i in range(n // 50 + 1))
    ),
    "labels": lambda n: pod(container(asks=ASKS), labels={f"{DOMAIN}/grouq{i}": "" for i in range(n)}),
    "annotations": lambda n: pod(
        container(asks=ASKS), annotations={f"{DOMAIN}/grouq-size{i}": "" for i in range(n)}
    ),
    "a long label": lambda n: pod(container(asks=ASKS), labels={f"{DOMAIN}/{'group' * n}": ""}),
    "a long group": lambda n: grouped(container(asks=ASKS), group="a-." * n),
    "a long mode": lambda n: grouped(container(asks=ASKS), mode="\u0000\n" * n),
    "a long duration": lambda n: pod(
        container(asks=ASKS), annotations={f"{DOMAIN}/duration": "1h" * n + "x"}
    ),
    "a long path": lambda n: pod(
        container(asks=ASKS, env=[{"name": "PYTHONPATH", "value": f"{STAGED}:" * n}])
    ),
    "a long amount": lambda n: pod(container(asks={**ASKS, "cpu": "1" * n})),
    "owners": lambda n: (
        pod(container(asks=ASKS))
        | {"metadata": {"ownerReferences": [{"kind": "Job", "name": "a", "controller": False}] * n}}
    ),
    "volumes": lambda n: pod(container(asks=ASKS), volumes=[{"name": f"v{i}"} for i in range(n)]),
    "gates": lambda n: pod(container(asks=ASKS), schedulingGates=[{"name": f"g{i}"} for i in range(n)]),
    "ports": lambda n: pod(container(asks=ASKS, ports=[{"hostPort": 0}] * n)),
    "spread constraints": lambda n: pod(
        container(asks=ASKS), topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}] * n
    ),
    "empty lists": lambda n: pod(container(asks=ASKS), tolerations=[[]] * n),
    "a shared job": lambda n: grouped(
        *(container(f"c{i}", ASKS) for i in range(n)), mode="shared", index="1"
    ),
}
"""Pods with ``n`` parts of one kind, by that kind."""

SOON = 2.0
"""CPU seconds. The API server waits for 3 or 10 s, and a shared machine may be several times slower."""


def largest(make: Callable[[int], Json], most: int) -> bytes:
    """Return a large pod of a kind in at most ``most`` bytes."""
    many = 4096
    size = int(0.85 * most / len(json.dumps(make(many))) * many)
    written_pod = written(make(size))
    assert most // 2 < len(written_pod) < most
    return written_pod


def decided(body: bytes) -> tuple[dict[str, Any], float]:
    """Return the response to a review, and the CPU seconds that it took."""
    judge = Admission(ALL, lambda: CONTEXT, Lookups())
    began = time.thread_time()
    answer, _, _ = asyncio.run(judge.decide(body))
    return json.loads(answer)["response"], time.thread_time() - began


@pytest.mark.parametrize("kind", HOSTILE)
def test_pod_of_3_mb_is_left_as_it_is_at_once(kind: str) -> None:
    response, seconds = decided(largest(HOSTILE[kind], 3 * 2**20))
    assert response["allowed"]
    assert "patch" not in response
    assert any("bytes, and pods of up to 1048576 are prepared" in one for one in response["warnings"])
    assert seconds < SOON


@pytest.mark.parametrize("kind", HOSTILE)
def test_largest_pod_that_is_read_is_answered_soon(kind: str) -> None:
    response, seconds = decided(largest(HOSTILE[kind], LARGEST_OBJECT - 2048))
    assert response["allowed"]
    assert seconds < SOON
    assert all(len(one) <= WARNING_LENGTH for one in response.get("warnings", ()))


@pytest.mark.parametrize(
    "body",
    [
        pod(*(container(f"c{i}") for i in range(MOST_CONTAINERS + 1))),
        pod(initContainers=[container(f"c{i}") for i in range(MOST_CONTAINERS + 1)]),
        pod(container(env=[{"name": f"v{i}"} for i in range(MOST_ENTRIES + 1)])),
        pod(labels={f"l{i}": "" for i in range(MOST_ENTRIES + 1)}),
        pod(container(asks=amounts(MOST_AMOUNTS + 1))),
    ],
)
def test_pod_over_a_cap_is_left_as_it_is_with_a_warning(body: Json) -> None:
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert outcome.patch == ()
    (warning,) = outcome.warnings
    assert warning.startswith(
        "fluence left the pod as it is: it is larger than the pods that admission prepares: "
    )
    assert "of length <= " in warning


def test_pod_at_every_cap_is_prepared() -> None:
    body = pod(
        container(asks={**ASKS, **amounts(MOST_AMOUNTS - 1)}),
        *(container(f"c{i}", env=[{"name": f"v{j}"} for j in range(40)]) for i in range(MOST_CONTAINERS - 1)),
        labels={f"l{i}": "" for i in range(MOST_ENTRIES)},
    )
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert len(applied(body, outcome)["spec"]["initContainers"]) == 1


def test_time_for_requests_grows_with_the_sidecars() -> None:
    assert_linear(effective_requests, lambda n: HOSTILE["sidecars"](n)["spec"])
    assert_linear(effective_requests, lambda n: HOSTILE["init containers after sidecars"](n)["spec"])


@pytest.mark.parametrize(
    "kind", ["a long label", "a long group", "a long duration", "a long amount", "labels"]
)
def test_time_to_read_a_declaration_grows_with_the_pod(kind: str) -> None:
    def read(body: Json) -> None:
        with suppress(Unfit):
            read_declaration(body)

    assert_linear(read, HOSTILE[kind])


def test_time_to_answer_does_not_depend_on_the_length_of_a_warning() -> None:
    def answer(text: str) -> bytes:
        return encode_answer("uid", Outcome(warnings=(text,) * 10))

    began = time.thread_time()
    answer("\u0000" * 3_000_000)
    assert time.thread_time() - began < SOON


def test_owner_whose_name_is_no_name_is_not_looked_up() -> None:
    body = grouped(container(), owner=("StatefulSet", "web?watch=true"))
    assert read_declaration(body).owner == ("", "")
    assert read_declaration(grouped(container(), owner=("StatefulSet", "web"))).owner == (
        "StatefulSet",
        "web",
    )
    lookups = Lookups()
    asyncio.run(Admission(ALL, lambda: CONTEXT, lookups).decide(written(body)))
    assert lookups.requested == []


async def test_small_review_does_not_wait_for_large_ones() -> None:
    service = Service()
    large = written(pod(annotations={"x": "a" * LARGE}))
    order: list[str] = []

    async def ask(name: str, body: bytes) -> httpx.Response:
        answer = await service.post(body)
        order.append(name)
        return answer

    async with service.client:
        await asyncio.gather(*(ask("large", large) for _ in range(20)), ask("small", written(pod())))
    assert order.index("small") < 10
