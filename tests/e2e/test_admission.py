"""What a user gets who writes the scheduler's name, a group and a device, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fluence_extender.model.names import GROUP_LABEL
from tests.e2e.admitted import (
    READY_GATE,
    containers,
    environment,
    gates_of,
    groups,
    new_variables,
    quantum,
    registered,
    release,
    sidecars_token,
    sizes,
    wait_for_contract,
    wait_for_sizes,
)
from tests.e2e.harness import Manifest, Namespace, annotations_of, job, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, backends
from tests.e2e.test_reasons import wait_for_event
from tests.e2e.workloads import ONE_DEVICE, QPU, RESOURCES, deployment, gang, labelled, ours, pod_group
from tests.localcluster.stack import Webhook

Write = Callable[[str], None]
BACKEND = "fluence.flux-framework.org/backend"
PRODUCER_BACKEND = f"producer.{BACKEND}"


def placed_on(pod: Manifest) -> str:
    """The backend that a Binding named."""
    return annotations_of(pod).get(BACKEND, "")


# Acceptance tests of the systems that this one takes the place of.


def test_4_group_of_a_deployment_becomes_a_gang_with_a_podgroup(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="1")
    namespace.create(deployment("web", labelled(ours("x", cpu="1"), "gang3", 2), 2))
    wait_for_sizes(namespace, {"gang3": 2})
    pods = namespace.wait_until_bound(2)
    assert [one["spec"]["schedulingGroup"] for one in pods] == [{"podGroupName": "gang3"}] * 2
    assert {one["spec"]["schedulerName"] for one in pods} == {"fluence-direct"}


@pytest.mark.parametrize("field", ["both", "limits"])
def test_8_27_virtual_resource_is_admitted_without_a_device_plugin(
    field: str,
    webhook: Webhook,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
) -> None:
    """No node offers a qpu, and neither kube-scheduler's filters nor kubelet's admission object."""
    (node,) = own_nodes(1, cpu="2")
    resources(ONE_DEVICE)
    body = quantum("one")
    if field == "limits":
        del body["spec"]["containers"][0]["resources"]["requests"][QPU]
    namespace.create(body)
    bound = namespace.wait_for_phase("one", "Running")
    assert (node_of(bound), placed_on(bound)) == (node, "ibm_fez")
    offered = namespace.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]
    assert QPU not in offered


def test_9_program_reads_the_name_of_a_configured_device(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="2")
    resources(RESOURCES)
    wait_for_contract(namespace, "FLUXION_REGION")
    namespace.create(quantum("mock"))
    bound = namespace.wait_for_phase("mock", "Running")
    found = environment(bound)
    assert found["FLUXION_BACKEND"] == placed_on(bound)
    assert found["FLUXION_BACKEND"] in ("ibm_fez", "rigetti_ankaa")
    assert found["QRMI_BACKEND"] == found["FLUXION_BACKEND"]
    assert found["FLUXION_VENDOR"] == ("ibm" if found["FLUXION_BACKEND"] == "ibm_fez" else "rigetti")


def shared_pair(namespace: Namespace) -> tuple[Manifest, Manifest]:
    """A producer and a consumer of group ``qgang``."""
    namespace.create(
        *(quantum(f"q-{index}", "qgang", mode="shared", index=str(index), size=2) for index in range(2))
    )
    return namespace.pod("q-0"), namespace.pod("q-1")


def test_10_shared_gang_is_wired_and_its_consumer_waits(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    producer, consumer = shared_pair(namespace)
    assert READY_GATE in gates_of(consumer)
    assert consumer["spec"]["priorityClassName"] == "fluence-quantum-classical"
    assert consumer["spec"]["priority"] == 1_000_000
    assert READY_GATE not in gates_of(producer)
    wait_for(lambda: sidecars_token(namespace), what="the account of sidecars and its token")
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace.name}"
    for path in (
        f"/api/v1/namespaces/{namespace.name}/serviceaccounts",
        f"{rbac}/roles",
        f"{rbac}/rolebindings",
    ):
        assert namespace.api.get(f"{path}/fluence-sidecar")
    running = namespace.wait_for_phase("q-0", "Running")
    assert placed_on(running) == "ibm_fez"
    assert {"fluence-stage", "fluence-sidecar"} <= containers(running).keys()
    assert running["spec"].get("serviceAccountName", "default") == "default"
    (token,) = (one["name"] for one in running["spec"]["volumes"] if "fluence-sidecar" in str(one))
    mounting = {
        name for name, one in containers(running).items() if f"'{token}'" in str(one.get("volumeMounts"))
    }
    assert mounting == {"fluence-sidecar"}
    assert {one["metadata"]["name"] for one in namespace.pods()} == {"q-0", "q-1"}
    told = f"waiting for scheduling gates of others: {READY_GATE}"
    fluence.wait_for_reason(namespace.name, "qgang", told)
    assert told in wait_for_event(namespace, "q-1", "WaitingForGates")["note"]
    wait_for(lambda: told in waiting(namespace.pod("q-1")), what="the condition to say why")
    assert not node_of(namespace.pod("q-1"))


def test_11_producer_and_consumers_are_groups_of_their_own(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    template = quantum("x", "qgang", mode="shared")
    namespace.create(job("work", template, parallelism=4, completionMode="Indexed"))
    pods = namespace.wait_for_pods(lambda pods: len(pods) == 4, "4 pods")
    wait_for_sizes(namespace, {"qgang": 3, "qgang-producer": 1})
    roles = {one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: one for one in pods}
    for index, one in roles.items():
        label = one["metadata"]["labels"][GROUP_LABEL]
        assert label == ("qgang-producer" if index == "0" else "qgang")
        depends = annotations_of(one).get("fluence.flux-framework.org/depends-on-producer")
        assert depends == (None if index == "0" else "qgang-producer")


def test_12_environment_of_producer_consumer_and_sidecar(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    shared_pair(namespace)
    producer = namespace.wait_for_phase("q-0", "Running")
    found = environment(producer)
    assert found["FLUENCE_COORDINATION_ROLE"] == "producer"
    assert found["FLUENCE_POD_UID"] == producer["metadata"]["uid"]
    assert found["PYTHONPATH"] == "/opt/fluence-staged"
    assert "FLUENCE_QUANTUM_JOB_ID" not in found
    sidecar = environment(producer, "fluence-sidecar")
    assert sidecar["FLUENCE_GANG_GROUP"] == "qgang"
    assert sidecar["FLUENCE_GROUP"] == "qgang-producer"
    assert sidecar["FLUXION_BACKEND"] == "ibm_fez"
    release(
        namespace,
        "q-1",
        **{"fluence.flux-framework.org/quantum-job-id": "task-7", PRODUCER_BACKEND: "ibm_fez"},
    )
    found = environment(namespace.wait_for_phase("q-1", "Running"))
    assert found["FLUENCE_COORDINATION_ROLE"] == "consumer"
    assert found["FLUENCE_QUANTUM_JOB_ID"] == "task-7"
    assert found["FLUXION_BACKEND"] == "ibm_fez"
    assert not {"PYTHONPATH", "FLUENCE_FAUX_SUBMIT"} & found.keys()


def test_13_23_restart_gives_no_device_away_twice(
    webhook: Webhook,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    namespace.create(quantum("first"))
    first = namespace.wait_for_phase("first", "Running")
    installation.crash()
    installation.revive()
    namespace.create(quantum("second"))
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 qpu not free")
    assert placed_on(namespace.pod("first")) == placed_on(first) == "ibm_fez"
    namespace.delete_pod("first")
    assert placed_on(namespace.wait_for_phase("second", "Running")) == "ibm_fez"


def waiting(pod: Manifest) -> str:
    """What the condition of a gated pod says."""
    (found,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert (found["status"], found["reason"]) == ("False", "SchedulingGated")
    return str(found.get("message", ""))


# Rows of the table of features.


def test_20_half_finished_gang_keeps_its_share_and_a_finished_one_gives_it_back(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    short, long = gang("pair", 2, cpu="1")
    short["metadata"]["annotations"]["demo.fluence.flux-framework.org/run-for"] = "100ms"
    namespace.create(short, long)
    namespace.wait_for_phase("pair-0", "Succeeded")
    wait_for(
        lambda: [one["pod"] for one in fluence.allocations(namespace.name)] == ["pair-1"],
        what="the share of the ended pod to be free",
    )
    namespace.create(ours("next", cpu="2"))
    fluence.wait_for_reason(namespace.name, "next", "busy")
    namespace.delete_pod("pair-1")
    namespace.wait_for_phase("next", "Running")
    # What has ended doesn't keep the PodGroup.
    wait_for_sizes(namespace, {})
    assert namespace.pod("pair-0")


def test_21_podgroup_of_ours_that_was_left_behind_goes(
    installation: Installation,
    webhook: Webhook,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(*gang("pair", 2, cpu="1"))
    wait_for_sizes(namespace, {"pair": 2})
    namespace.wait_until_bound(2)
    webhook.stop()
    for name in ("pair-0", "pair-1"):
        namespace.delete_pod(name)
    assert sizes(namespace) == {"pair": 2}
    webhook.start()
    wait_for_sizes(namespace, {})


def test_22_podgroup_of_the_users_stays_and_rules(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(pod_group("mine", 2))
    before = groups(namespace.api, namespace.name)["mine"]["metadata"]["uid"]
    namespace.create(*gang("mine", 2, size=3, cpu="1"), *gang("theirs", 2, cpu="1"))
    namespace.wait_until_bound(4)
    wait_for_sizes(namespace, {"mine": 2, "theirs": 2})
    for one in namespace.pods():
        namespace.delete_pod(one["metadata"]["name"])
    wait_for_sizes(namespace, {"mine": 2})
    assert groups(namespace.api, namespace.name)["mine"]["metadata"]["uid"] == before


def test_24_devices_of_the_file_are_known(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    namespace.create(quantum("a"), quantum("b"))
    pods = namespace.wait_until_bound(2)
    assert {placed_on(one) for one in pods} == backends(fluence) == {"ibm_fez", "rigetti_ankaa"}


def test_25_bad_edit_of_the_file_changes_nothing_for_new_pods(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    wait_for_contract(namespace, "FLUXION_REGION")
    rejected = metric(webhook, "fluence_webhook_resources_rejected_total")
    resources("backends: [{name: ibm_fez}]")
    wait_for(lambda: metric(webhook, "fluence_webhook_resources_rejected_total") > rejected, what="a refusal")
    namespace.create(quantum("one"))
    assert environment(namespace.wait_for_phase("one", "Running"))["FLUXION_BACKEND"]
    assert "FLUXION_REGION" in environment(namespace.pod("one"))


def metric(webhook: Webhook, name: str) -> float:
    """The value of a metric without labels."""
    lines = [line.split() for line in webhook.get("/metrics").splitlines() if line.startswith(f"{name} ")]
    return float(lines[0][1]) if lines else 0.0


def test_26_29_any_level_can_be_asked_for_and_what_it_cleared_is_absent(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(
        "resources: [{type: qdevice, name: eagle, attributes: {vendor: ibm, region: us-east}, "
        "with: [{type: qpu, attributes: {region: ''}, with: [{type: qubit, count: 9}]}]}]"
    )
    bits = ours("bits", requests={"fluxion.flux-framework.org/qubit": 4})
    # Not one that an earlier file is to blame for.
    wait_for(
        lambda: {"FLUXION_VENDOR"} == {"FLUXION_VENDOR", "FLUXION_REGION"} & new_variables(namespace, bits),
        what="the webhook to read resources.yaml",
    )
    namespace.create(bits)
    found = environment(namespace.wait_for_phase("bits", "Running"))
    assert (found["FLUXION_BACKEND"], found["FLUXION_VENDOR"]) == ("eagle", "ibm")
    assert "FLUXION_REGION" not in found
    namespace.delete_pod("bits")
    namespace.create(ours("all", requests={"fluxion.flux-framework.org/qdevice": 1}))
    found = environment(namespace.wait_for_phase("all", "Running"))
    assert (found["FLUXION_BACKEND"], found["FLUXION_REGION"]) == ("eagle", "us-east")


def test_28_30_requirement_decides_and_the_pod_tells(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    wait_for_contract(namespace, "FLUXION_REGION")
    wish = {"fluence.flux-framework.org/require-vendor": "rigetti"}
    namespace.create(quantum("picky", annotations=wish))
    bound = namespace.wait_for_phase("picky", "Running")
    assert annotations_of(bound)["fluence.flux-framework.org/attr-vendor"] == "rigetti"
    assert environment(bound)["FLUXION_BACKEND"] == "rigetti_ankaa"
    impossible = {"fluence.flux-framework.org/require-vendor": "dwave"}
    namespace.create(quantum("never", annotations=impossible))
    fluence.wait_for_reason(namespace.name, "never", "no backend")


def test_31_new_attribute_is_in_the_next_pod_without_a_restart(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    wait_for_contract(namespace, "FLUXION_VENDOR")
    resources("resources: [{type: qpu, name: ibm_fez, attributes: {vendor: ibm, queue-limit: '7'}}]")
    wait_for_contract(namespace, "FLUXION_QUEUE_LIMIT")

    def graph_follows() -> bool:
        return "queue-limit" in str(fluence.get("/v1/graph"))

    wait_for(graph_follows, what="the service to follow")
    namespace.create(quantum("one"))
    assert environment(namespace.wait_for_phase("one", "Running"))["FLUXION_QUEUE_LIMIT"] == "7"


def test_32_cores_are_not_held_while_no_device_is_free(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="3")
    resources(ONE_DEVICE)
    namespace.create(quantum("first"))
    namespace.wait_for_phase("first", "Running")
    namespace.create(quantum("second"))
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 qpu not free")
    namespace.create(ours("classical", cpu="2"))
    namespace.wait_for_phase("classical", "Running")


def test_35_38_observed_pod_has_a_sidecar_that_only_watches_and_every_quantum_pod_the_interceptor(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    namespace.create(quantum("seen", observe="true"), quantum("unseen"))
    seen, unseen = namespace.wait_for_phase("seen", "Running"), namespace.wait_for_phase("unseen", "Running")
    assert environment(seen, "fluence-sidecar")["FLUENCE_OBSERVE"] == "true"
    assert "FLUENCE_GANG_GROUP" not in environment(seen, "fluence-sidecar")
    assert containers(seen)["fluence-sidecar"]["restartPolicy"] == "Always"
    assert "fluence-sidecar" not in containers(unseen)
    for one in (seen, unseen):
        assert "fluence-stage" in containers(one)
        assert environment(one)["PYTHONPATH"] == "/opt/fluence-staged"
        assert environment(one)["FLUENCE_POD_UID"] == one["metadata"]["uid"]
        assert READY_GATE not in gates_of(one)


def test_36_41_of_pods_that_are_all_alike_exactly_one_produces(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="8")
    resources(ONE_DEVICE)
    namespace.create(deployment("loose", quantum("x", "lab", mode="shared", size=4), 4))
    pods = namespace.wait_for_pods(lambda pods: len(pods) == 4, "4 pods")
    roles = [environment(one)["FLUENCE_COORDINATION_ROLE"] for one in pods]
    assert sorted(roles) == ["consumer"] * 3 + ["producer"]
    wait_for_sizes(namespace, {"lab": 3, "lab-producer": 1})
    for one, role in zip(pods, roles, strict=True):
        notes = annotations_of(one)
        depends = {key: notes.get(f"fluence.flux-framework.org/depends-on-{key}") for key in ("kind", "gate")}
        assert depends == (
            {"kind": "quantum-submit", "gate": READY_GATE}
            if role == "consumer"
            else {"kind": None, "gate": None}
        )
    # The producer goes, another pod takes its place, and produces.
    (first,) = [one for one, role in zip(pods, roles, strict=True) if role == "producer"]
    namespace.delete_pod(first["metadata"]["name"])

    def leading() -> list[Manifest]:
        return namespace.pods(**{GROUP_LABEL: "lab-producer"})

    def follows() -> bool:
        return [one["metadata"]["uid"] != first["metadata"]["uid"] for one in leading()] == [True]

    wait_for(follows, what="another producer", seen=lambda: [one["metadata"] for one in namespace.pods()])


def test_37_independent_pods_of_a_group_are_a_gang_of_equals(
    webhook: Webhook,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
    history: History,
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    namespace.create(quantum("solo-0", "solo", index="0", size=2))
    fluence.wait_for_reason(namespace.name, "solo", "waiting for members (1 of 2 exist)")
    assert not history.bound
    namespace.create(quantum("solo-1", "solo", index="1", size=2))
    pods = namespace.wait_until_bound(2)
    for one in pods:
        assert gates_of(one) == []
        assert "FLUENCE_COORDINATION_ROLE" not in environment(one)
    assert {placed_on(one) for one in pods} == {"ibm_fez", "rigetti_ankaa"}


def test_33_handlers_are_chosen_and_ordered(
    installation: Installation, webhook: Webhook, fluence: Fluence, namespace: Namespace
) -> None:
    webhook.stop()
    body = quantum("chosen", "lab", mode="shared", index="0", size=2)
    with registered(installation.plane, "--handlers", "gang,fluxion"):
        made = namespace.api.request(
            "POST", f"/api/v1/namespaces/{namespace.name}/pods", body, query={"dryRun": "All"}
        )
    webhook.start()
    assert "initContainers" not in made["spec"]
    assert made["spec"]["schedulingGroup"] == {"podGroupName": "lab"}
    assert "FLUXION_BACKEND" in environment(made)
