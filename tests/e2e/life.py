"""The life of an installation on real nodes: releases, restarts, drains, reboots, certificates, and its removal.

Run by ``python -m tests.nodes``, after all other tests; the name keeps it out of runs on other clusters. The order is a
part of it: the last test removes the installation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from fluence_extender.model.names import DEFAULT_NAMESPACE
from tests.e2e.admitted import quantum
from tests.e2e.harness import (
    Cluster,
    Manifest,
    Namespace,
    documents,
    node_of,
    pod,
    wait_for,
)
from tests.e2e.history import recorded
from tests.e2e.service import Fluence, discrepancies
from tests.e2e.workloads import gang, labelled, ours
from tests.images.building import EARLIER, write_earlier
from tests.localcluster import ApiError
from tests.nodes.node import Node
from tests.nodes.rig import PRODUCT, Rig

DEPLOY = Path(__file__).parents[2] / "deploy"
LONG = 300.0
WORKER = "worker-1"
ON_WORKER = {"kubernetes.io/hostname": WORKER}
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.fluence.flux-framework.org"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fluence-webhook"
INTAKE = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/fluence-intake"
VIEW = "/apis/rbac.authorization.k8s.io/v1/clusterroles/fluence-view"
STATE = "/apis/apiregistration.k8s.io/v1/apiservices/v1.fluence.flux-framework.org"
HOLD = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: held-back}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}
  validations:
    - expression: "!object.metadata.name.startsWith('late')"
      message: this pod is held back
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: held-back}
spec: {policyName: held-back, validationActions: [Deny]}
"""
"""No pod whose name begins with "late" is bound while this policy is there."""


@contextmanager
def half_bound(cluster: Cluster, namespace: Namespace) -> Iterator[None]:
    """While this lasts a gang of four has two bound members; then it may go on."""
    cluster.apply(HOLD)
    members = [ours(name, cpu="100m") for name in ("soon-0", "soon-1", "late-0", "late-1")]
    probe = pod("late-probe")
    cluster.api.create(probe, namespace.name)

    def held() -> bool:
        try:
            namespace.bind("late-probe", WORKER)
        except ApiError as error:
            return "held back" in error.message
        namespace.delete_pod("late-probe")
        cluster.api.create(probe, namespace.name)
        return False

    wait_for(held, what="the policy to be in force")
    namespace.delete_pod("late-probe")
    namespace.create(*(labelled(one, "half", 4) for one in members))
    try:
        wait_for(
            lambda: set(places(namespace, "soon")) == {"soon-0", "soon-1"},
            LONG,
            "half of the gang to be bound",
        )
        yield
        assert not places(namespace, "late")
    finally:
        for document in reversed(documents(HOLD)):
            cluster.api.delete(cluster.api.path_of(document))


def places(namespace: Namespace, prefix: str = "") -> dict[str, str]:
    """The nodes of the pods that have one, by their names."""
    return {
        one["metadata"]["name"]: node_of(one)
        for one in namespace.pods()
        if node_of(one) and one["metadata"]["name"].startswith(prefix)
    }


def rolled_out(rig: Rig) -> None:
    """Wait until both Deployments run what they are to run, and no other pods are left."""
    for deployment in PRODUCT:
        rig.kubectl(
            "rollout",
            "status",
            f"--namespace={DEFAULT_NAMESPACE}",
            f"deployment/{deployment}",
            f"--timeout={LONG:g}s",
        )
    wait_for(lambda: len(product_pods(rig)) == 4, LONG, "former pods to end")


def images(rig: Rig) -> set[str]:
    """The images of our own containers, as they run."""
    found = {one["image"] for item in product_pods(rig) for one in item["spec"]["containers"]}
    return {one for one in found if one.startswith("fluence-extender")}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """deploy/ of the release before this one, with its image, and with a policy, a right and a field of a CRD less."""
    write_earlier(tmp_path)
    folder = tmp_path / "deploy"
    base = folder / "base"
    for file in (base, folder / "webhook"):
        kustomization = yaml.safe_load((file / "kustomization.yaml").read_text())
        kustomization["images"] = [{"name": "fluence-extender", "newTag": EARLIER}]
        if file == base:
            kustomization["resources"].remove("intake.yaml")
        (file / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    view, *roles = documents(base / "users.yaml")
    view["rules"].pop()
    (base / "users.yaml").write_text(yaml.safe_dump_all([view, *roles]))
    config = base / "scheduler.yaml"
    config.write_text(config.read_text().replace("podMaxBackoffSeconds: 5", "podMaxBackoffSeconds: 10"))
    kinds = documents(base / "queues.yaml")
    schema = next(one for one in kinds if one["metadata"]["name"].startswith("queues."))
    (version,) = schema["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["stop"]
    (base / "queues.yaml").write_text(yaml.safe_dump_all(kinds))
    return folder


def test_upgrade_and_roll_back_keep_what_runs_what_waits_and_what_is_half_bound(
    rig: Rig, cluster: Cluster, namespace: Namespace, fluence: Fluence, earlier: Path
) -> None:
    namespace.create(*gang("runs", 2, cpu="100m"), *gang("waits", 2, cpu="12"), *gang("more", 2, cpu="12"))
    wait_for(lambda: len(places(namespace)) == 4, LONG, "two gangs to run")
    before = places(namespace)
    (waiting,) = {"waits", "more"} - {name.rpartition("-")[0] for name in before}
    fluence.wait_for_reason(namespace.name, waiting, "busy")
    for folder, tag in ((earlier, EARLIER), (DEPLOY, "0.1.0")):
        with recorded(namespace) as history:
            with half_bound(cluster, namespace):
                half = places(namespace, "soon")
                rig.kubectl("apply", "--kustomize", str(folder))
                if folder == earlier:
                    rig.kubectl("delete", "--filename", str(DEPLOY / "base/intake.yaml"))
                rolled_out(rig)
                assert images(rig) == {f"fluence-extender:{tag}"}
                assert {name: node for name, node in places(namespace).items() if name in before} == before
                fluence.wait_for_reason(namespace.name, waiting, "busy", LONG)
            wait_for(lambda: len(places(namespace, "late")) == 2, LONG, "the other half to be bound")
            assert places(namespace, "soon") == half
            assert not history.moved
        for name in places(namespace, "soon") | places(namespace, "late"):
            namespace.delete_pod(name)
        fields = cluster.api.get(DEFINITION)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        assert ("stop" in fields["spec"]["properties"]) is (folder == DEPLOY)
        assert len(cluster.api.get(VIEW)["rules"]) == (2 if folder == DEPLOY else 1)
    assert cluster.api.get(INTAKE)["metadata"]["name"] == "fluence-intake"


def test_rollout_restart_in_the_middle_of_a_gang(
    rig: Rig, cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    with recorded(namespace) as history:
        with half_bound(cluster, namespace):
            half = places(namespace)
            for deployment in PRODUCT:
                rig.kubectl(
                    "rollout", "restart", f"--namespace={DEFAULT_NAMESPACE}", f"deployment/{deployment}"
                )
            rolled_out(rig)
            assert places(namespace) == half
        fluence.wait_for_state(namespace.name, "half", "bound", LONG)
        assert not history.moved


def test_drain_leaves_one_replica_of_each_and_moves_the_lead(
    rig: Rig, cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    drained = node_of(leader(rig))
    with least_ready(rig) as least:
        rig.kubectl(
            "drain",
            drained,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--force",
            f"--timeout={LONG:g}s",
        )
        namespace.create(*gang("meanwhile", 2, cpu="100m"))
        fluence.wait_for_state(namespace.name, "meanwhile", "bound", LONG)
        rolled_out(rig)
    wait_for(lambda: asked(rig) == {leader(rig)["metadata"]["name"]}, LONG, "the Service to follow the lead")
    assert drained not in {node_of(one) for one in product_pods(rig)}
    assert all(ready >= 1 for ready in least.values()), least
    rig.kubectl("uncordon", drained)


def product_pods(rig: Rig) -> list[Manifest]:
    """The pods of the installation."""
    found: list[Manifest] = rig.plane.api.get(f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods")["items"]
    return found


def leader(rig: Rig) -> Manifest:
    """The pod that leads."""
    lease = rig.plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{DEFAULT_NAMESPACE}/leases/fluence")
    holder = lease["spec"]["holderIdentity"].partition("_")[0]
    return next(one for one in product_pods(rig) if one["metadata"]["name"] == holder)


def asked(rig: Rig) -> set[str]:
    """The pods to which the Service of the state API leads."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{DEFAULT_NAMESPACE}/endpointslices"
    return {
        endpoint["targetRef"]["name"]
        for one in rig.plane.api.get(path)["items"]
        if one["metadata"]["labels"].get("kubernetes.io/service-name") == "fluence"
        for endpoint in one.get("endpoints") or ()
        if endpoint["conditions"].get("ready")
    }


@contextmanager
def least_ready(rig: Rig) -> Iterator[dict[str, int]]:
    """The fewest ready replicas that each Deployment had while this lasted."""
    least = dict.fromkeys(PRODUCT, 99)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.25):
            for name in PRODUCT:
                path = f"/apis/apps/v1/namespaces/{DEFAULT_NAMESPACE}/deployments/{name}"
                status = rig.plane.api.get(path)["status"]
                least[name] = min(least[name], status.get("readyReplicas", 0))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    yield least
    ended.set()
    watcher.join()


def containers_of(namespace: Namespace) -> dict[str, str]:
    """The containers of the namespace's pods that run, by pod."""
    return {
        one["metadata"]["name"]: state["containerID"]
        for one in namespace.pods()
        for state in one["status"].get("containerStatuses") or ()
        if "running" in state["state"]
    }


def test_kubelet_restarts_beside_running_gangs(
    rig: Rig, cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    namespace.create(*gang("before", 2, cpu="100m", nodeSelector=ON_WORKER))
    wait_for(lambda: len(containers_of(namespace)) == 2, LONG, "the gang to run")
    running = containers_of(namespace)
    rig.nodes[WORKER].restart("kubelet")
    namespace.create(*gang("after", 2, cpu="100m", nodeSelector=ON_WORKER))
    wait_for(lambda: len(containers_of(namespace)) == 4, LONG, "another gang to run beside it")
    assert {name: one for name, one in containers_of(namespace).items() if name in running} == running


def test_gang_continues_where_it_was_after_its_node_rebooted(
    rig: Rig, cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    namespace.create(*gang("stays", 2, cpu="100m", nodeSelector=ON_WORKER))
    wait_for(lambda: len(containers_of(namespace)) == 2, LONG, "the gang to run")
    former = containers_of(namespace)
    node = rig.nodes[WORKER]
    node.switch_off()
    namespace.create(*gang("meanwhile", 2, cpu="100m"))
    rig.switch_on(node)

    def back() -> bool:
        now = containers_of(namespace)
        return all(now.get(name, one) != one for name, one in former.items())

    wait_for(back, LONG, "the gang's containers to run again", lambda: containers_of(namespace))
    rig.wait_until_ready()
    fluence.wait_for_state(namespace.name, "meanwhile", "bound", LONG)
    fluence.wait_for_state(namespace.name, "stays", "bound", LONG)
    wait_for(lambda: not discrepancies(cluster, fluence), LONG, "ledger and cluster to agree")


def test_new_authorities_refuse_no_call(
    rig: Rig, cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    rolled_out(rig)
    api = cluster.api
    bundles: list[Callable[[], str]] = [
        lambda: api.get(WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"],
        lambda: api.get(STATE)["spec"]["caBundle"],
    ]
    former = [one() for one in bundles]
    refused: list[str] = []
    ended = threading.Event()

    def call() -> None:
        path = f"/api/v1/namespaces/{namespace.name}/pods"
        while not ended.wait(0.2):
            try:
                api.request("POST", path, quantum("probe"), query={"dryRun": "All"})
                api.get("/apis/fluence.flux-framework.org/v1/gangs")
            except ApiError as error:
                refused.append(str(error))

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    for secret in ("fluence-webhook-ca", "fluence-state-ca"):
        path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/secrets/{secret}"
        api.request(
            "PATCH", path, [{"op": "remove", "path": "/data"}], content_type="application/json-patch+json"
        )
    for asked, old in zip(bundles, former, strict=True):
        wait_for(partial(differs, asked, old), LONG, "a new authority to be registered")
    time.sleep(10)
    ended.set()
    caller.join()
    assert not refused, refused


def test_without_webhook_only_pods_with_devices_are_refused(
    rig: Rig, cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    scale = ("scale", f"--namespace={DEFAULT_NAMESPACE}", "deployment/fluence-webhook")
    rig.kubectl(*scale, "--replicas=0")
    path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods"
    wait_for(
        lambda: not rig.plane.api.get(path, labelSelector="app.kubernetes.io/name=fluence-webhook")["items"],
        LONG,
        "the webhook to end",
    )
    namespace.create(*gang("plain", 2, cpu="100m"))
    fluence.wait_for_state(namespace.name, "plain", "bound", LONG)
    with pytest.raises(ApiError, match="webhook"):
        namespace.create(quantum("device"))
    rig.kubectl(*scale, "--replicas=2")
    rolled_out(rig)

    def taken() -> bool:
        body = quantum("device")
        cluster.api.request(
            "POST", f"/api/v1/namespaces/{namespace.name}/pods", body, query={"dryRun": "All"}
        )
        return True

    wait_for(taken, LONG, "pods with devices to be taken again")


def test_removal_leaves_nothing(rig: Rig, cluster: Cluster) -> None:
    rig.kubectl("delete", "--kustomize", "deploy", "--ignore-not-found", f"--timeout={LONG:g}s")

    def left() -> list[str]:
        return sorted(rig.objects() - rig.bare)

    wait_for(lambda: not left(), LONG, "the removal of the installation", left)
    for node in rig.nodes.values():
        wait_for(partial(empty, node), LONG, f"the containers of {node.name} to end")


def differs(asked: Callable[[], str], former: str) -> bool:
    """Whether something isn't any more what it was."""
    return asked() != former


def empty(node: Node) -> bool:
    """Whether a node runs nothing."""
    return not node.containers()
