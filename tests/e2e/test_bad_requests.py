"""Garbage on the verbs of the running service: a clean refusal, nothing held, and the next gang is served."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from tests.e2e.harness import Namespace
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import ours

VERBS = ("filter", "prioritize", "bind", "preempt")


def post(installation: Installation, verb: str, body: bytes, timeout: float = 60) -> tuple[int, bytes]:
    """Post ``body`` to a verb; the status and the answer, for which ``timeout`` seconds are waited."""
    request = urllib.request.Request(f"{installation.stack.verbs_url}/{verb}", body, method="POST")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("verb", VERBS)
def test_garbage_is_refused_and_nothing_is_held(
    verb: str,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="2")
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"Pod": 3}',
        b'{"Pod":{"metadata":{}}' * 50,
    ):
        status, _ = post(installation, verb, body)
        assert 400 <= status < 500, body
    assert not fluence.allocations()
    namespace.create(ours("next", cpu="1"))
    namespace.wait_for_phase("next", "Running")


def test_pod_and_node_that_nobody_knows_are_refused(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    (node,) = own_nodes(1, cpu="2")
    unknown = {
        "metadata": {"namespace": namespace.name, "name": "ghost", "uid": "0000"},
        "spec": {"schedulerName": "fluence"},
    }
    status, body = post(
        installation, "filter", json.dumps({"Pod": unknown, "Nodes": None, "NodeNames": [node]}).encode()
    )
    answer = json.loads(body)
    assert status == 200
    assert answer["NodeNames"] == []
    assert "not been seen" in answer["Error"]
    binding = {"PodName": "ghost", "PodNamespace": namespace.name, "PodUID": "0000", "Node": node}
    status, body = post(installation, "bind", json.dumps(binding).encode())
    assert status == 200
    assert json.loads(body)["Error"]
    namespace.create(ours("known", cpu="1"))
    uid = namespace.wait_for_phase("known", "Running")["metadata"]["uid"]
    elsewhere = {"PodName": "known", "PodNamespace": namespace.name, "PodUID": uid, "Node": "no-such-node"}
    assert json.loads(post(installation, "bind", json.dumps(elsewhere).encode())[1])["Error"]
    again = {**elsewhere, "Node": node}
    assert json.loads(post(installation, "bind", json.dumps(again).encode())[1]) == {"Error": ""}
    assert len(fluence.allocations(namespace.name)) == 1
