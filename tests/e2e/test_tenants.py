"""What a user with the role edit in one namespace can't do to others who share the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from string import ascii_letters

import pytest

from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    BACKEND_ANNOTATION,
    DIRECT_SCHEDULER_NAME,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    PLACED_ANNOTATION,
    USER_ANNOTATION,
)
from tests.e2e.editor import RBAC, editor
from tests.e2e.harness import Manifest, Namespace, annotations_of, job, node_of, pod, wait_for
from tests.e2e.installation import Installation, gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.operators import KINDS, written
from tests.e2e.played_operators import PlayedOperators
from tests.e2e.service import Fluence
from tests.e2e.workloads import ONE_DEVICE, QPU, deployment, gang, labelled, ours, pod_group
from tests.localcluster import ApiError, ControlPlane

Write = Callable[[str], None]
CLUSTER: Manifest = {"headGroupSpec": {"template": {"spec": ours("x", cpu="1")["spec"]}}}
"""The spec of a RayCluster with a head alone."""
ATTRIBUTE = "fluence.flux-framework.org/attr-vendor"
WRITTEN = (ALLOCATION_ANNOTATION, BACKEND_ANNOTATION, ATTRIBUTE, PLACED_ANNOTATION)
STAYS = re.compile("stay as they are|stays as it is")
"""The annotations that only the service writes."""


@pytest.fixture
def user(control_plane: ControlPlane, namespace: Namespace) -> Namespace:
    """The test's namespace, accessed as a user whose only right is the role ``edit`` there."""
    seen = editor(control_plane, namespace)
    # Rights and policies count a moment after they were created.
    wait_for(lambda: not refusal(seen, ours("p")), what="the user's rights to be in force")
    wait_for(lambda: refusal(seen, ours("p", nodeName="n")), what="the policy to count")
    return seen


def refusal(seen: Namespace, body: Manifest) -> str:
    """Why the API server would not create the pod, "" if it would."""
    try:
        tried(seen, body)
    except ApiError as error:
        return str(error)
    return ""


def tried(seen: Namespace, body: Manifest) -> Manifest:
    """The pod as the API server would create it."""
    return seen.api.request("POST", f"/api/v1/namespaces/{seen.name}/pods", body, query={"dryRun": "All"})


def edited(seen: Namespace, name: str, **metadata: dict[str, str | None]) -> str:
    """Why the API server doesn't take an edit of a pod's metadata, "" if it does."""
    try:
        seen.api.patch(f"/api/v1/namespaces/{seen.name}/pods/{name}", {"metadata": metadata})
    except ApiError as error:
        return str(error)
    return ""


def test_user_cannot_choose_the_node_of_a_pod_nor_of_a_workloads_pods(
    fluence: Fluence, namespace: Namespace, user: Namespace, own_nodes: NodeFactory
) -> None:
    (node,) = own_nodes(1, cpu="4")
    assert "get their node from fluence: remove spec.nodeName" in refusal(user, ours("x", nodeName=node))
    template = ours("x", cpu="1", nodeName=node)
    user.create(job("work", template), deployment("web", template, 1))

    def told() -> set[str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events"
        found = namespace.api.get(path)["items"]
        return {one["regarding"]["kind"] for one in found if "get their node from fluence" in one["note"]}

    wait_for(lambda: told() == {"Job", "ReplicaSet"}, what="both controllers to be refused", seen=told)
    assert not namespace.pods()
    # Neither pods of other schedulers nor those who may bind pods are held to it.
    assert not refusal(user, pod("theirs", nodeName=node))
    assert not refusal(namespace, ours("by-an-administrator", nodeName=node))


def submitter(body: Manifest) -> str | None:
    """Return the user that created an object, as admission recorded it."""
    return annotations_of(body).get(USER_ANNOTATION)


def test_creator_of_work_is_recorded_and_nobody_can_name_another(
    fluence: Fluence, namespace: Namespace, user: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    name, forged = f"user-of-{namespace.name}", {USER_ANNOTATION: "somebody-else"}
    pods = f"/api/v1/namespaces/{namespace.name}/pods"
    template = ours("x", cpu="100m", annotations=forged)
    (loose,) = user.create(ours("loose", cpu="100m", annotations=forged))
    (plain,) = user.create(ours("plain", cpu="100m"))
    (work,) = user.create({**job("work", template), "metadata": {"name": "work", "annotations": forged}})
    user.create(deployment("web", template, 1))
    assert [submitter(one) for one in (loose, plain, work)] == [name, name, name]
    # Neither the gate nor the scheduler's second name keeps a pod from naming its creator.
    gated = ours("gated", annotations=forged, schedulingGates=[{"name": GATE}])
    direct = ours("direct", schedulerName=DIRECT_SCHEDULER_NAME)
    for body in (gated, direct, {**direct, "metadata": direct["metadata"] | {"annotations": forged}}):
        assert submitter(user.api.request("POST", pods, body, query={"dryRun": "All"})) == name
    path = f"/apis/apps/v1/namespaces/{namespace.name}/replicasets"
    wait_for(lambda: namespace.api.get(path)["items"], what="the ReplicaSet")
    (copied,) = namespace.api.get(path)["items"]
    assert submitter(copied) == name
    # The pods of workloads name nobody: the service reads the workload.
    wait_for(lambda: len(namespace.pods()) == 4, what="the pods of the workloads")
    assert {submitter(one) for one in namespace.pods()} == {name, None}
    assert edited(user, "loose", annotations={USER_ANNOTATION: "x"}).count("stays as it is")
    jobs = f"/apis/batch/v1/namespaces/{namespace.name}/jobs/work"
    for value in ("x", None):
        changed = user.api.patch(jobs, {"metadata": {"annotations": {USER_ANNOTATION: value}}})
        assert submitter(changed) == name
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "x", "controller": True}
    forgery = {**copied, "metadata": {"name": "forgery", "annotations": forged, "ownerReferences": [owner]}}
    forgery["metadata"]["labels"] = copied["metadata"]["labels"]
    found = user.api.request("POST", path, forgery, query={"dryRun": "All"})
    assert submitter(found) is None


def copies(namespace: Namespace, owner: Manifest, kind: str, api_version: str) -> str | None:
    """Return the user of a RayCluster that KubeRay would create for ``owner``, if that were of this kind."""
    made = written("RayCluster", "copy", **CLUSTER)
    reference = {"kind": kind, "apiVersion": api_version, "name": "x", "uid": "x", "controller": True}
    made["metadata"] |= {"annotations": annotations_of(owner), "ownerReferences": [reference]}
    path = f"/apis/ray.io/v1/namespaces/{namespace.name}/rayclusters"
    return submitter(namespace.api.request("POST", path, made, query={"dryRun": "All"}))


def waiting_for(fluence: Fluence, namespace: Namespace) -> dict[str, str]:
    """Return the user of each gang of the namespace that waits in line."""
    return {
        one["name"]: one["user"] for one in fluence.items("/v1/queue") if one["namespace"] == namespace.name
    }


def test_work_of_a_cron_job_belongs_to_who_created_it(
    fluence: Fluence, namespace: Namespace, user: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="1")
    namespace.create(ours("full", cpu="1"))
    namespace.wait_for_phase("full", "Running")
    name, forged = f"user-of-{namespace.name}", {USER_ANNOTATION: "somebody-else"}
    jobs = f"/apis/batch/v1/namespaces/{namespace.name}/jobs"
    path = f"/apis/batch/v1/namespaces/{namespace.name}/cronjobs"
    template: Manifest = {"spec": job("x", ours("x", cpu="1", annotations=forged))["spec"]}
    noted = {"metadata": {"annotations": forged}, **template}
    (plain,) = user.create(cron_job("plain", template))
    (nightly,) = user.create(cron_job("nightly", noted))
    made = [plain, nightly]
    for value in ("x", None):
        for api in (user.api, namespace.api):
            change = {"metadata": {"annotations": {USER_ANNOTATION: value}}, "spec": {"backoffLimit": 1}}
            made.append(api.patch(f"{path}/nightly", {"spec": {"jobTemplate": change}}))
    assert [submitter(one["spec"]["jobTemplate"]) for one in made] == [name] * 6
    assert made[-1]["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 1
    # Its time has come: it last ran the day before yesterday.
    for one in ("plain", "nightly"):
        last = (datetime.now(UTC) - timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace.api.patch(f"{path}/{one}/status", {"status": {"lastScheduleTime": last}})
    wait_for(lambda: len(namespace.api.get(jobs)["items"]) == 2, what="the CronJobs to create Jobs")
    runs = namespace.api.get(jobs)["items"]
    assert [submitter(one) for one in runs] == [name, name]
    wait_for(
        lambda: list(waiting_for(fluence, namespace).values()) == [name, name],
        what="the Jobs to wait as the user's",
        seen=lambda: waiting_for(fluence, namespace),
    )
    # Only who may create Jobs everywhere, as the CronJobs' controller may, hands the name on, and of CronJobs alone.
    copy = job("copy", ours("x"))
    for api, of, known in (
        (user.api, "batch/v1", None),
        (namespace.api, "batch/v1", "somebody-else"),
        (namespace.api, "batch.example.org/v1", None),
    ):
        owner = {"apiVersion": of, "kind": "CronJob", "name": "nightly", "uid": "x", "controller": True}
        copy["metadata"] = {"name": "copy", "annotations": forged, "ownerReferences": [owner]}
        assert submitter(api.request("POST", jobs, copy, query={"dryRun": "All"})) == known


def cron_job(name: str, template: Manifest) -> Manifest:
    """A batch/v1 CronJob that runs once a day."""
    spec = {"schedule": "0 0 * * *", "jobTemplate": template}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


@pytest.mark.usefixtures("operators")
def test_ray_clusters_of_a_ray_job_belong_to_who_created_it(
    fluence: Fluence,
    namespace: Namespace,
    user: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="1")
    namespace.create(ours("full", cpu="1"))
    namespace.wait_for_phase("full", "Running")
    name, forged = f"user-of-{namespace.name}", {USER_ANNOTATION: "somebody-else"}
    rule = {"apiGroups": ["ray.io"], "resources": ["*"], "verbs": ["*"]}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "ray"}, "rules": [rule]}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ray"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "ray"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
    }
    namespace.create(role, binding)
    path = f"/apis/ray.io/v1/namespaces/{namespace.name}"
    wait_for(lambda: user.api.get(f"{path}/rayjobs"), what="the user's rights to be in force")
    for kind in ("RayJob", "RayService"):
        of = written(kind, "forged", rayClusterSpec=CLUSTER)
        of["metadata"]["annotations"] = forged
        (created,) = user.create(of)
        changed = user.api.patch(
            f"{path}/{KINDS[kind][2]}/forged", {"metadata": {"annotations": {USER_ANNOTATION: "x"}}}
        )
        assert submitter(created) == submitter(changed) == name
        assert copies(namespace, created, kind, "ray.io/v1") == name
        assert copies(user, of, kind, "ray.io/v1") is None
        assert copies(namespace, of, kind, "ray.example.org/v1") is None
    played = PlayedOperators(installation.plane.api)
    played.start()
    try:
        wait_for(lambda: namespace.api.get(f"{path}/rayclusters")["items"], what="the RayCluster")
        (cluster,) = namespace.api.get(f"{path}/rayclusters")["items"]
        assert submitter(cluster) == name
        wait_for(
            lambda: set(waiting_for(fluence, namespace).values()) == {name},
            what="the RayCluster to wait as the user's",
            seen=lambda: waiting_for(fluence, namespace),
        )
    finally:
        played.stop()


def test_user_cannot_write_what_the_service_records_on_a_pod(
    fluence: Fluence, namespace: Namespace, user: Namespace, own_nodes: NodeFactory
) -> None:
    user.create(ours("x", cpu="1", annotations={key: "x" for key in WRITTEN}))
    for key in WRITTEN:
        assert STAYS.search(edited(user, "x", annotations={key: "y"})), key
    own_nodes(1, cpu="4")
    notes = annotations_of(namespace.wait_for_phase("x", "Running"))
    assert notes[PLACED_ANNOTATION].startswith("1 pod/x ")
    for key in WRITTEN:
        assert STAYS.search(edited(user, "x", annotations={key: "y"})), key
        if key in notes:
            assert STAYS.search(edited(user, "x", annotations={key: None})), key
    assert not edited(user, "x", annotations={"anything": "else"})
    assert edited(user, "x", labels={"any": "label"}) == ""


def keys(count: int) -> dict[str, str]:
    """So many annotations with the shortest keys."""
    return {"".join(key): "" for key in islice(product(ascii_letters, repeat=3), count)}


def test_user_cannot_write_records_on_a_pod_with_very_many_annotations(
    fluence: Fluence, namespace: Namespace, user: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    user.create(ours("many", cpu="1", annotations=keys(20_000)))
    namespace.wait_for_phase("many", "Running")
    for key in WRITTEN:
        assert STAYS.search(edited(user, "many", annotations={key: "y"})), key


@pytest.mark.parametrize(
    "spec",
    [
        {"annotations": keys(60_000)},
        {"labels": {**keys(20_000), GROUP_LABEL: "g"}},
        {"volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(10_000)]},
        {"env": [{"name": f"E{number}"} for number in range(10_000)]},
        {"ports": [{"containerPort": number + 1} for number in range(10_000)]},
        {"containers": [{"name": f"c{number}", "image": "app"} for number in range(2_000)]},
    ],
    ids=["annotations", "labels", "volumes", "env", "ports", "containers"],
)
def test_pod_of_any_size_is_direct_or_gated(fluence: Fluence, user: Namespace, spec: Manifest) -> None:
    body = labelled(ours("large"), "g")
    (container,) = body["spec"]["containers"]
    for name, value in spec.items():
        where = body["metadata"] if name in ("annotations", "labels") else body["spec"]
        (container if name in ("env", "ports") else where)[name] = value
    created = tried(user, body)
    direct = created["spec"]["schedulerName"] == DIRECT_SCHEDULER_NAME
    assert gates_of(created) == ([] if direct else [GATE])


def test_bound_pod_that_changes_its_group_takes_nothing_from_others(
    fluence: Fluence, namespace: Namespace, user: Namespace, others: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.api.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "important-and-patient"},
            "value": 1000,
            "preemptionPolicy": "Never",
        }
    )
    user.create(ours("decoy", cpu="2"))
    namespace.wait_for_phase("decoy", "Running")
    user.create(*gang("big", 1, size=2, cpu="2"))
    assert not edited(user, "decoy", labels={GROUP_LABEL: "big"}, annotations={GROUP_SIZE_ANNOTATION: "2"})
    others.create(ours("important", cpu="2", priorityClassName="important-and-patient"))
    fluence.wait_for_reason(others.name, "important", "busy")
    fluence.wait_for_reason(namespace.name, "big", "busy")
    own_nodes(1, cpu="2")
    others.wait_for_phase("important", "Running")
    assert not node_of(namespace.pod("big-0"))


def test_groups_of_one_name_in_two_namespaces_have_nothing_in_common(
    fluence: Fluence, namespace: Namespace, user: Namespace, others: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    others.create(*gang("g", 1, size=2, cpu="1"))
    user.create(pod_group("g", 1), *gang("g", 2, cpu="1"))
    named = {"kueue.x-k8s.io/pod-group-name": f"{others.name}/g", "kueue.x-k8s.io/pod-group-total-count": "1"}
    user.create(ours("kueue", cpu="1", annotations=named))
    namespace.wait_until_bound(3)
    fluence.wait_for_reason(others.name, "g", "waiting for members (1 of 2 exist)")
    assert not node_of(others.pod("g-0"))
    with pytest.raises(ApiError, match="forbidden"):
        Namespace(others.name, user.api).create(*gang("g", 1, first=1, cpu="1"))


def test_copied_stamp_gets_no_device_of_others(
    fluence: Fluence, user: Namespace, others: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    others.create(ours("first", cpu="1", requests={QPU: 1}))
    notes = annotations_of(others.wait_for_phase("first", "Running"))
    assert notes[BACKEND_ANNOTATION] == "ibm_fez"
    user.create(ours("second", cpu="1", requests={QPU: 1}, annotations=notes))
    fluence.wait_for_reason(user.name, "second", "busy: 1 qpu not free")
