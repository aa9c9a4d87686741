"""The webhook on the local control plane, registered for real: two replicas as deploy/webhook installs them.

What deploy/ grants is what they run with; the Service before them is a balancer, which the API server calls by its URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from fluence_extender.identity.authority import SECRET
from fluence_extender.model.names import WEBHOOK_NAME
from fluence_extender.webhook.producers import CLAIMS
from fluence_extender.webhook.registration import PATH
from tests.e2e.admitted import remove
from tests.e2e.harness import Manifest, documents, pod, wait_for
from tests.e2e.installation import BASE
from tests.e2e.workloads import QPU
from tests.localcluster import ControlPlane
from tests.localcluster.stack import Webhook
from tests.network.balancer import Balancer

SHIPPED = BASE.parent / "webhook"
SECRET_PATH = f"/api/v1/namespaces/fluence-system/secrets/{SECRET}"
CLAIMS_PATH = f"/api/v1/namespaces/fluence-system/configmaps/{CLAIMS}"


class Admission:
    """``replicas`` behind one URL; the registration is gone again after `running`."""

    def __init__(self, plane: ControlPlane, balancer: Balancer, arguments: Sequence[str]) -> None:
        self.plane = plane
        self.api = plane.api
        # An entry that another writer left would keep its fields beside those of the manifest.
        remove(plane.api, PATH)
        for file in (
            "serviceaccount.yaml",
            "rbac.yaml",
            "claims.yaml",
            "authority.yaml",
            "registration.yaml",
        ):
            for document in documents(SHIPPED / file):
                plane.api.apply(document)
        for right in (
            ("update", "", "secrets", "fluence-system", SECRET),
            ("update", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", WEBHOOK_NAME),
        ):
            wait_for(partial(self.allowed, *right), what="the rights to be in force")
        url = f"https://127.0.0.1:{balancer.port}/mutate"
        kubeconfig = plane.kubeconfig_for_service_account("fluence-system", "fluence-webhook")
        self.replicas = [
            Webhook(
                plane, kubeconfig=kubeconfig, url=url, arguments=arguments, name=f"fluence-webhook-{number}"
            )
            for number in range(2)
        ]
        balancer.ports[:] = [one.port for one in self.replicas]

    def registration(self) -> Manifest:
        """The registration as it is now."""
        return self.api.get(PATH)

    def bundles(self) -> set[str]:
        """The bundles of its entries, in base64."""
        return {one["clientConfig"].get("caBundle", "") for one in self.registration()["webhooks"]}

    def tried(self, pod: Manifest, namespace: str = "default") -> Manifest:
        """The pod as the API server would store it. Raises `ApiError`."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        return self.api.request("POST", path, pod, query={"dryRun": "All"})

    def allowed(self, verb: str, group: str, resource: str, where: str = "", name: str = "") -> bool:
        """Whether the replicas' account may do so."""
        asked = {"verb": verb, "group": group, "resource": resource, "namespace": where, "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "system:serviceaccount:fluence-system:fluence-webhook",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": asked,
            },
        }
        answer = self.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def wait_until_called(self, pod: Manifest) -> None:
        """Wait until the API server has read the registration and calls: it patches this pod."""
        wait_for(lambda: environment(self.tried(pod)), what="the API server to call the webhook")


@contextmanager
def running(plane: ControlPlane, *arguments: str) -> Iterator[Admission]:
    """The webhook with these ``arguments`` while the context lasts."""
    with Balancer() as balancer, ExitStack() as stack:
        admission = Admission(plane, balancer, arguments)
        stack.callback(_unregister, plane)
        for replica in admission.replicas:
            stack.callback(replica.process.kill)
            replica.process.launch()
        for replica in admission.replicas:
            replica.process.wait_ready()
        yield admission


def _unregister(plane: ControlPlane) -> None:
    for path in (PATH, SECRET_PATH, CLAIMS_PATH):
        remove(plane.api, path)


def environment(pod: Manifest) -> dict[str, Any]:
    """The environment of a pod's first container by name."""
    return {entry["name"]: entry for entry in pod["spec"]["containers"][0].get("env") or ()}


def quantum(name: str = "quantum", scheduler: str = "fluence") -> Manifest:
    """A pod with one qpu."""
    return pod(name, scheduler=scheduler, cpu="100m", requests={QPU: 1})


def made_for_sidecars(admission: Admission, namespace: str) -> list[str]:
    """The objects in a namespace that the webhook makes for sidecars."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    core = f"/api/v1/namespaces/{namespace}"
    found = []
    for path in (f"{core}/serviceaccounts", f"{core}/secrets", f"{rbac}/roles", f"{rbac}/rolebindings"):
        found += [
            path for one in admission.api.get(path)["items"] if one["metadata"]["name"] == "fluence-sidecar"
        ]
    leases = admission.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    return found + [one["metadata"]["name"] for one in leases["items"]]
