"""Gangs are bound whole while each call to the API server takes seconds, and while watches expire."""

from __future__ import annotations

import threading

from tests.e2e.harness import Namespace, node_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, indexed_job, ours
from tests.network.gateway import Gateway

SLOW = 2.0
"""Seconds that each call takes."""


def bound(namespace: Namespace, prefix: str) -> int:
    return sum(bool(node_of(pod)) for pod in namespace.pods() if pod["metadata"]["name"].startswith(prefix))


def test_gangs_are_bound_whole_while_each_call_takes_seconds(
    gateway: Gateway, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="4")
    seen: list[int] = []
    with gateway.delaying(SLOW):
        namespace.create(*gang("a", 4, cpu="1"), *gang("big", 6, cpu="1"))
        wait_for(lambda: bound(namespace, "a") == 4, what="the first gang to be bound")
        seen.append(bound(namespace, "big"))
        namespace.create(indexed_job("job", ours("x", cpu="1"), 4))
        wait_for(lambda: bound(namespace, "job") == 4, what="the Job to be bound")
        seen.append(bound(namespace, "big"))
        for number in range(4):
            namespace.delete_pod(f"a-{number}")
        wait_for(lambda: not bound(namespace, "a-"), what="the first gang to be gone")
    assert seen == [0, 0]


def test_gang_is_bound_whole_though_all_watches_expire_meanwhile(
    gateway: Gateway, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(4, cpu="4")
    over = threading.Event()

    def expire() -> None:
        while not over.wait(0.3):
            gateway.expire_watches()

    thread = threading.Thread(target=expire)
    thread.start()
    try:
        for number in range(4):
            namespace.create(*gang(f"g{number}", 4, cpu="1"))
            namespace.wait_until_bound(4 * (number + 1))
    finally:
        over.set()
        thread.join()
