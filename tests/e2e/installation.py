"""The service on the local control plane, installed as deploy/ installs it.

What deploy/ grants is what it runs with: its ServiceAccount's token, its RBAC, its admission policy. Only the
Deployment itself is replaced by two processes, because no kubelet here runs containers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from fluence_extender.model.names import DEFAULT_NAMESPACE, DIRECT_SCHEDULER_NAME, FLUX_SIZE
from tests.e2e.harness import Manifest, documents, wait_for
from tests.e2e.workloads import deployment, ours
from tests.localcluster import Api, ControlPlane
from tests.localcluster.stack import Stack

BASE = Path(__file__).parents[2] / "deploy" / "base"
FILES = (
    "namespace.yaml",
    "serviceaccount.yaml",
    "rbac.yaml",
    "priorityclass.yaml",
    "queues.yaml",
    "gate.yaml",
    "deviceclasses.yaml",
    "suspend.yaml",
    "operators.yaml",
    "groups.yaml",
    "intake.yaml",
    "stamps.yaml",
    "submitters.yaml",
    "accounts.yaml",
    "autoscalers.yaml",
)
CLASSES = {
    f"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/fluence-{name}": f"{name}.yaml"
    for name in ("gate", "deviceclasses", "suspend")
}
"""The bindings of the policies that make pods direct or filtered ones, and hold Jobs, with their files."""

# libreapi_cli serves the whole suite too, where it is found: FLUENCE_ENGINE=fluxion
ENGINE = os.environ.get("FLUENCE_ENGINE", "embedded")


class Installation:
    """One installation; ``stack`` are its processes as they run now."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        for file in FILES:
            for document in documents(BASE / file):
                plane.api.apply(document)
        self.kubeconfig = plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence")
        self.wait_for_classes(True)
        wait_for(lambda: handed_on(plane.api), what="the policy that hands labels on to templates")
        self.usual = self.stack = self._stack()

    def _stack(
        self,
        arguments: Sequence[str] = (),
        feature_gates: Mapping[str, bool] | None = None,
    ) -> Stack:
        return Stack(
            self.plane,
            kubeconfig=self.kubeconfig,
            arguments=("--engine", ENGINE, *arguments),
            feature_gates=dict(feature_gates or {}),
        )

    @contextmanager
    def other(self, *arguments: str, feature_gates: Mapping[str, bool] | None = None) -> Iterator[Stack]:
        """Run with other options instead; afterwards the usual processes are back."""
        self.usual.stop()
        try:
            with self._stack(arguments, feature_gates) as self.stack:
                yield self.stack
        finally:
            self.stack = self.usual
            self.usual.start()

    def crash(self) -> None:
        """Kill the extender (SIGKILL)."""
        self.stack.extender.kill()

    def revive(self) -> None:
        """Start the extender again, and wait until it is ready."""
        self.stack.extender.start()

    def mend(self) -> None:
        """Start what a test has killed and left so, and wait until it is ready."""
        self.revive()
        assert self.stack.scheduler is not None
        self.stack.scheduler.start()

    @contextmanager
    def scheduler_stopped(self) -> Iterator[None]:
        """While this lasts, plans are made and nothing is bound."""
        scheduler = self.stack.scheduler
        assert scheduler is not None
        scheduler.stop()
        try:
            yield
        finally:
            scheduler.start()

    def wait_for_classes(self, wanted: bool) -> None:
        """Wait until new pods of ours are direct or filtered ones, or neither any more."""
        wait_for_classes(self.plane.api, wanted)

    def ungated(self) -> AbstractContextManager[None]:
        """While this lasts, pods are neither direct nor gated: kube-scheduler asks about each at once."""
        return ungated(self.plane.api)


def wait_for_classes(api: Api, wanted: bool) -> None:
    """Wait until new pods of ours are direct or filtered ones, or neither any more."""
    wait_for(lambda: classed(api) is wanted, what=f"the admission policy to be {wanted}")


@contextmanager
def ungated(api: Api) -> Iterator[None]:
    """While this lasts, pods are neither direct nor gated: kube-scheduler asks about each at once."""
    try:
        for binding in CLASSES:
            api.delete(binding)
        wait_for_classes(api, False)
        yield
    finally:
        for file in CLASSES.values():
            for document in documents(BASE / file):
                api.apply(document)
        wait_for_classes(api, True)


def gates_of(pod: Manifest) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def scheduler_of(pod: Manifest) -> str:
    """The scheduler that a pod names."""
    return str(pod["spec"].get("schedulerName", ""))


def classed(api: Api) -> bool:
    """Whether a pod of ours that its node alone decides would be a direct one if it were created now."""
    return bool(_as_created(api, ours("probe"))["spec"]["schedulerName"] == DIRECT_SCHEDULER_NAME)


def handed_on(api: Api) -> bool:
    """Whether a label of flux-k8s on a Deployment would get to its pods if it were created now."""
    probe = deployment("probe", ours("probe"), 1)
    probe["metadata"]["labels"] = {FLUX_SIZE: "1"}
    path = "/apis/apps/v1/namespaces/default/deployments"
    created = api.request("POST", path, probe, query={"dryRun": "All"})
    return FLUX_SIZE in created["spec"]["template"]["metadata"]["labels"]


def _as_created(api: Api, pod: Manifest) -> Manifest:
    return api.request("POST", "/api/v1/namespaces/default/pods", pod, query={"dryRun": "All"})
