"""A Job whose pods can't be placed says so in a condition of its own, which Kubernetes' Job controller leaves alone."""

from __future__ import annotations

import time

from fluence_extender.model.names import UNSATISFIABLE_CONDITION
from tests.e2e.harness import Manifest, Namespace, job, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import indexed_job, ours

QUIET = 5.0
"""Seconds in which nothing may be written."""


def found(namespace: Namespace, name: str) -> Manifest:
    return namespace.api.get(f"/apis/batch/v1/namespaces/{namespace.name}/jobs/{name}")


def condition(namespace: Namespace, name: str, kind: str = UNSATISFIABLE_CONDITION) -> Manifest:
    """The Job's condition of that type; empty while there is none."""
    conditions = found(namespace, name)["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


def test_job_that_fits_no_node_says_so_until_a_larger_node_comes_and_then_completes(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(
        indexed_job("large", ours("x", cpu="4", run_for="1s"), 2), job("small", ours("x", cpu="1"))
    )
    told = wait_for(lambda: condition(namespace, "large"), what="the condition")
    assert (told["status"], told["reason"]) == ("True", "Unsatisfiable")
    assert told["message"] == "unsatisfiable: no node has 4 cpu (the largest has 2 cpu)"
    assert not condition(namespace, "small")
    before = found(namespace, "large")["metadata"]["resourceVersion"]
    time.sleep(QUIET)
    assert found(namespace, "large")["metadata"]["resourceVersion"] == before

    own_nodes(1, cpu="8")
    wait_for(
        lambda: condition(namespace, "large")["status"] == "False", what="the condition to be taken back"
    )
    wait_for(lambda: condition(namespace, "large", "Complete").get("status") == "True", what="it to complete")
    assert found(namespace, "large")["status"]["succeeded"] == 2
    assert condition(namespace, "large")["status"] == "False"
