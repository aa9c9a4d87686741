"""The webhook on a real API server, which verifies its certificate: registered, kept, rotated, and away."""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fluence_extender.identity.certificates import read_bundle
from fluence_extender.identity.registration import OWNER, OWNER_LABEL
from fluence_extender.model.coordination import COORDINATION_ANNOTATION, ROLE_ANNOTATION, SHARED
from fluence_extender.model.names import (
    DIRECT_SCHEDULER_NAME,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    WARNING_ANNOTATION,
    WEBHOOK_NAME,
)
from fluence_extender.webhook.registration import PATH
from tests.e2e.admission import (
    CLAIMS_PATH,
    SECRET_PATH,
    Admission,
    environment,
    made_for_sidecars,
    quantum,
    running,
)
from tests.e2e.admitted import sidecars_token
from tests.e2e.harness import LONGEST, Namespace, job, wait_for
from tests.e2e.installation import Installation
from tests.e2e.plugin import user_shell
from tests.e2e.workloads import labelled, ours
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.recipe import release
from tests.localcluster.stack import Webhook
from tests.unit.webhook.certificates import shown_by
from tests.unit.webhook.reviews import written

BACKEND = "FLUXION_BACKEND"
PRODUCES = {"name": "FLUENCE_COORDINATION_ROLE", "value": "producer"}
STARTED = "webhook on https://"
NO_BUNDLE = base64.b64encode(b"nobody is trusted").decode()


@pytest.fixture(scope="module")
def admission(control_plane: ControlPlane, installation: Installation) -> Iterator[Admission]:
    with running(control_plane) as admission:
        admission.wait_until_called(quantum())
        yield admission


def metric(replica: Webhook, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(replica.get("/metrics")):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return 0.0


def logs(admission: Admission) -> list[str]:
    """What each replica has written so far."""
    return [admission.plane.log(f"fluence-webhook-{number}").read_text() for number in range(2)]


def answered(admission: Admission) -> float:
    """Reviews that all replicas have answered."""
    return sum(metric(one, "fluence_webhook_request_duration_seconds_count") for one in admission.replicas)


def shown(admission: Admission) -> list[bytes]:
    """The certificates that the replicas show to who trusts what is registered."""
    (bundle,) = admission.bundles()
    return [shown_by(one.port, base64.b64decode(bundle)) for one in admission.replicas]


def others(admission: Admission, before: list[bytes]) -> bool:
    """Whether both replicas show certificates that they didn't before."""
    # While it is written the registration may have two bundles.
    return len(admission.bundles()) == 1 and not set(shown(admission)) & set(before)


def secret(admission: Admission, **data: str) -> None:
    """Let the Secret hold this instead, whatever the replicas write meanwhile."""

    def written() -> bool:
        stored = admission.api.get(SECRET_PATH)
        try:
            admission.api.request("PUT", SECRET_PATH, {**stored, "data": data})
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return False
        return True

    wait_for(written, what="the Secret to be written")


@contextmanager
def creating(admission: Admission) -> Iterator[list[str]]:
    """While this lasts, quantum pods are tried one after the other; what went wrong."""
    failures: list[str] = []
    ended, tried = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        while not ended.is_set():
            try:
                if BACKEND not in environment(admission.tried(quantum())):
                    failures.append("a pod went through as it was")
            except ApiError as error:
                failures.append(str(error))
            tried.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert tried.acquire(timeout=LONGEST)
        yield failures
        for _ in range(20):
            assert tried.acquire(timeout=LONGEST)
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)


def test_row_34_mutation_works_with_certificates_of_its_own(admission: Admission) -> None:
    assert BACKEND in environment(admission.tried(quantum()))
    one, other = shown(admission)
    assert one != other
    wait_for(
        lambda: all(metric(one, "fluence_webhook_registered") == 1 for one in admission.replicas),
        what="both replicas to have seen the registration",
    )


def test_pods_of_other_schedulers_are_never_sent(admission: Admission) -> None:
    before = answered(admission)
    for scheduler in ("default-scheduler", "somebody-elses"):
        stored = admission.tried(quantum(scheduler=scheduler))
        assert "env" not in stored["spec"]["containers"][0]
        assert not {"initContainers", "volumes", "schedulingGates"} & stored["spec"].keys()
    assert answered(admission) == before


@pytest.mark.parametrize(
    ("labels", "notes", "told"),
    [
        ({GROUP_LABEL: "one", "scheduling.x-k8s.io/pod-group": "two"}, {}, "names group 'one'"),
        ({GROUP_LABEL: "one"}, {GROUP_SIZE_ANNOTATION: "three"}, "write a whole number"),
        ({GROUP_LABEL: "one"}, {ROLE_ANNOTATION: "boss"}, "write 'producer' or 'consumer'"),
    ],
    ids=["two groups", "a size that is no number", "a role that there is not"],
)
def test_pod_that_says_what_can_not_be_is_admitted_as_it_is_and_kubectl_says_why(
    labels: dict[str, str], notes: dict[str, str], told: str, admission: Admission, tmp_path: Path
) -> None:
    metadata = {"name": "unclear", "namespace": "default", "labels": labels, "annotations": notes}
    shell = user_shell(admission.plane.kubeconfig, "default", tmp_path)
    manifest = json.dumps({**quantum(), "metadata": metadata})
    warned = shell.run("create", "--dry-run=server", "--output=json", "--filename=-", stdin=manifest)
    assert warned.returncode == 0, warned.stderr
    assert "Warning: fluence left the pod as it is: " in warned.stderr
    assert told in warned.stderr
    stored = json.loads(warned.stdout)
    assert "env" not in stored["spec"]["containers"][0]
    assert stored["metadata"]["labels"] == labels
    assert told in stored["metadata"]["annotations"][WARNING_ANNOTATION]


def test_row_64_server_side_dry_run_makes_nothing(admission: Admission, namespace: Namespace) -> None:
    template = labelled(quantum("shared"), "shared", 3)
    template["metadata"]["annotations"][COORDINATION_ANNOTATION] = SHARED
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    stored = admission.api.request("POST", path, template, query={"dryRun": "All"})
    assert "FLUENCE_COORDINATION_ROLE" in environment(stored)
    classical = labelled(ours("classical"), "classical", 2)
    admission.api.request("POST", path, classical, query={"dryRun": "All"})
    # A real pod afterwards: what it brings about is there, so that what isn't there was never made.
    namespace.create(labelled(ours("real", cpu="9000"), "real", 2))
    groups = f"/apis/{release().pod_groups}/namespaces/{namespace.name}/podgroups"

    def names(path: str) -> set[str]:
        return {one["metadata"]["name"] for one in admission.api.get(path)["items"]}

    wait_for(lambda: names(groups), what="the PodGroup of the real pod")
    assert names(groups) == {"real"}
    assert not made_for_sidecars(admission, namespace.name)
    # Claims of other namespaces stay for a while: only those of this one say what the dry runs left.
    claims: dict[str, str] = admission.api.get(CLAIMS_PATH).get("data") or {}
    assert not [group for group in claims if group.startswith(f"{namespace.name}.")]


@pytest.mark.parametrize(
    ("verb", "group", "resource", "where", "name"),
    [
        ("list", "", "secrets", "fluence-system", ""),
        ("list", "", "secrets", "kube-system", ""),
        ("update", "", "secrets", "kube-system", "fluence-webhook-ca"),
        ("get", "", "secrets", "fluence-system", "another"),
        ("update", "", "secrets", "default", "fluence-webhook-ca"),
        ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""),
        ("update", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "another"),
        ("update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", WEBHOOK_NAME),
        ("create", "", "pods", "", ""),
        ("delete", "", "pods", "", ""),
        ("create", "", "pods/binding", "", ""),
        ("create", "", "serviceaccounts/token", "fluence-system", "fluence"),
        ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""),
        ("update", "rbac.authorization.k8s.io", "roles", "fluence-system", "another"),
        ("escalate", "rbac.authorization.k8s.io", "roles", "", ""),
        ("bind", "rbac.authorization.k8s.io", "roles", "", ""),
        ("list", "", "nodes", "", ""),
    ],
)
def test_its_account_gives_nothing_beyond(
    admission: Admission, verb: str, group: str, resource: str, where: str, name: str
) -> None:
    assert not admission.allowed(verb, group, resource, where, name)


def test_its_account_gives_what_it_needs(admission: Admission) -> None:
    assert admission.allowed("update", "", "secrets", "fluence-system", "fluence-webhook-ca")
    assert admission.allowed(
        "update", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", WEBHOOK_NAME
    )
    for log in logs(admission):
        assert "forbidden" not in log
        assert "a right is missing" not in log


def test_two_replicas_make_one_producer_and_the_account_of_its_sidecar(
    admission: Admission, namespace: Namespace
) -> None:
    def create(number: int) -> None:
        made = labelled(quantum(f"shared-{number}"), "shared", 6)
        made["metadata"]["annotations"][COORDINATION_ANNOTATION] = SHARED
        namespace.create(made)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(create, range(6)))
    roles = [environment(one)["FLUENCE_COORDINATION_ROLE"]["value"] for one in namespace.pods()]
    assert sorted(roles) == ["consumer"] * 5 + ["producer"]
    (producer,) = (one for one in namespace.pods() if PRODUCES in environment(one).values())
    assert producer["spec"].get("serviceAccountName", "default") == "default"
    wait_for(lambda: len(made_for_sidecars(admission, namespace.name)) == 4, what="the account of sidecars")
    token = wait_for(lambda: sidecars_token(namespace), what="its token")
    api = Api(admission.plane.access.for_token("sidecar", token))
    own = f"/api/v1/namespaces/{namespace.name}/pods"
    assert len(api.get(own)["items"]) == 6
    with pytest.raises(ApiError, match="forbidden"):
        api.get("/api/v1/namespaces/default/pods")
    # The token ends with its Secret.
    admission.api.delete(f"/api/v1/namespaces/{namespace.name}/secrets/fluence-sidecar")
    wait_for(lambda: refuses(api, own), what="the token to end")
    api.close()


def refuses(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        return error.status == HTTPStatus.UNAUTHORIZED
    return False


def test_somebody_elses_edit_of_the_bundle_is_put_back(admission: Admission) -> None:
    before = admission.bundles()
    stored = admission.registration()
    for one in stored["webhooks"]:
        one["clientConfig"]["caBundle"] = ""
    stored["webhooks"][0]["timeoutSeconds"] = 1
    admission.api.request("PUT", PATH, stored)
    wait_for(lambda: admission.bundles() == before, what="the bundle to be put back")
    wait_for(
        lambda: admission.registration()["webhooks"][0]["timeoutSeconds"] == 10, what="the limit to be too"
    )
    admission.wait_until_called(quantum())


def test_registration_that_is_not_ours_is_told_and_left_alone(admission: Admission) -> None:
    marked = {"metadata": {"labels": {OWNER_LABEL: "helm"}}}
    admission.api.patch(PATH, marked)
    wait_for(
        lambda: all(metric(one, "fluence_webhook_registered") == 0 for one in admission.replicas),
        what="both replicas to count it",
    )
    stored = admission.registration()
    stored["webhooks"][0]["timeoutSeconds"] = 7
    theirs = admission.api.request("PUT", PATH, stored)
    wait_for(
        lambda: all(f"{WEBHOOK_NAME} that isn't ours" in log for log in logs(admission)),
        what="both replicas to tell of it",
    )
    reads = [metric(one, "fluence_webhook_looks_total") for one in admission.replicas]
    wait_for(
        lambda: all(
            metric(one, "fluence_webhook_looks_total") >= before + 2
            for one, before in zip(admission.replicas, reads, strict=True)
        ),
        what="both replicas to look again",
    )
    assert admission.registration()["webhooks"] == theirs["webhooks"]
    admission.api.patch(PATH, {"metadata": {"labels": {OWNER_LABEL: OWNER}}})
    wait_for(
        lambda: admission.registration()["webhooks"][0]["timeoutSeconds"] == 10, what="it to be kept again"
    )


def test_new_authority_is_taken_up_without_a_restart_or_a_refused_pod(admission: Admission) -> None:
    before = shown(admission)
    old = read_bundle(base64.b64decode(admission.bundles().pop()))
    starts = [log.count(STARTED) for log in logs(admission)]
    with creating(admission) as failures:
        secret(admission)
        wait_for(lambda: others(admission, before), what="both replicas to show new certificates")
    assert failures == []
    new = read_bundle(base64.b64decode(admission.bundles().pop()))
    assert new[0] not in old
    assert old[0] in new
    assert [log.count(STARTED) for log in logs(admission)] == starts


def test_broken_secret_is_told_and_mended_with_what_was_held(admission: Admission) -> None:
    before = admission.api.get(SECRET_PATH)["data"]
    with creating(admission) as failures:
        secret(admission, **{"ca.crt": NO_BUNDLE, "ca.key": NO_BUNDLE})
        wait_for(lambda: admission.api.get(SECRET_PATH)["data"] == before, what="the Secret to be mended")
    assert failures == []
    wait_for(
        lambda: any("broken and is replaced" in log for log in logs(admission)), what="it to be told in a log"
    )


@pytest.mark.parametrize(
    "end", [Webhook.stop, lambda replica: replica.process.kill()], ids=["asked", "killed"]
)
def test_one_replica_that_ends_is_not_missed(admission: Admission, end: Callable[[Webhook], None]) -> None:
    ending = admission.replicas[0]
    with creating(admission) as failures:
        end(ending)
        admission.wait_until_called(quantum())
    # A review that is under way in a process that is killed is lost, and no other.
    assert len(failures) <= (0 if end is Webhook.stop else 8), failures
    ending.start()
    assert BACKEND in environment(admission.tried(quantum()))


def test_reviews_that_can_not_be_read_are_refused_by_the_real_process(admission: Admission) -> None:
    replica = admission.replicas[0]
    for body in (b"nonsense", b"{}", written({}, uid="")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            replica.post("/mutate", body)
        assert refused.value.code == 400
        assert refused.value.read()
        refused.value.close()
    unreadable = json.loads(replica.post("/mutate", written([])))["response"]
    assert unreadable["allowed"] is True
    assert "patch" not in unreadable
    assert unreadable["warnings"]


def test_in_an_outage_only_pods_that_ask_for_devices_wait(admission: Admission, namespace: Namespace) -> None:
    for replica in admission.replicas:
        replica.stop()
    try:
        with pytest.raises(ApiError, match=r"failed calling webhook.*devices\.fluence") as refused:
            admission.tried(quantum())
        assert refused.value.status == 500
        assert admission.tried(quantum(scheduler="default-scheduler"))
        (classical,) = namespace.create(ours("classical", cpu="9000"))
        assert classical["spec"]["schedulerName"] == DIRECT_SCHEDULER_NAME
        namespace.create(job("waiting", quantum()))
    finally:
        for replica in admission.replicas:
            replica.start()
    admission.wait_until_called(quantum())
    made = namespace.wait_for_pods(lambda pods: len(pods) == 2, "the Job's pod", timeout=180)
    (late,) = (one for one in made if one["metadata"]["name"].startswith("waiting"))
    assert BACKEND in environment(late)
