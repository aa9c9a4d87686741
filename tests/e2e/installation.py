"""The service on the local control plane, installed as deploy/ installs it.

What deploy/ grants is what it runs with: its ServiceAccount's token, its RBAC, its admission policy. Only the
Deployment itself is replaced by two processes, because no kubelet here runs containers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from fluence_extender.model.names import DEFAULT_NAMESPACE, FLUX_SIZE, GATE, MARK_RESOURCE
from tests.e2e.harness import Manifest, documents, wait_for
from tests.e2e.workloads import deployment, labelled, ours
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
    "suspend.yaml",
    "operators.yaml",
    "groups.yaml",
    "intake.yaml",
    "stamps.yaml",
    "submitters.yaml",
    "accounts.yaml",
    "autoscalers.yaml",
)
GATE_BINDINGS = [
    f"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/{name}"
    for name in ("fluence-gate", "fluence-births", "fluence-suspend")
]

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
        self.wait_for_gate(True)
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

    def wait_for_gate(self, wanted: bool) -> None:
        """Wait until new pods of ours get the gate, or don't any more."""
        wait_for_gate(self.plane.api, wanted)

    def ungated(self) -> AbstractContextManager[None]:
        """While this lasts, pods are created without our gate, and marked all the same."""
        return ungated(self.plane.api)


def wait_for_gate(api: Api, wanted: bool) -> None:
    """Wait until new pods of ours get the gate, or don't any more."""
    wait_for(lambda: gated(api) is wanted, what=f"the admission policy to be {wanted}")


@contextmanager
def ungated(api: Api) -> Iterator[None]:
    """While this lasts, pods are created without our gate, and marked all the same."""
    marking = only_marking(*documents(BASE / "gate.yaml"))
    try:
        for document in marking:
            api.apply(document)
        for binding in GATE_BINDINGS:
            api.delete(binding)
        wait_for_gate(api, False)
        wait_for(lambda: marked(api), what="the policy that only marks")
        yield
    finally:
        for file in ("gate.yaml", "suspend.yaml"):
            for document in documents(BASE / file):
                api.apply(document)
        wait_for_gate(api, True)
        for document in reversed(marking):
            api.delete(api.path_of(document))


def only_marking(policy: Manifest, binding: Manifest, *_others: Manifest) -> list[Manifest]:
    """The policy that gates and marks, with its binding, as one of another name that marks alone."""
    spec = policy["spec"]
    (rule,) = (one["expression"] for one in spec["variables"] if one["name"] == "toMark")
    conditions = [*spec["matchConditions"][:-1], {"name": "to-mark", "expression": rule}]
    variables = [one | {"expression": "true"} if one["name"] == "gated" else one for one in spec["variables"]]
    name = {"metadata": {"name": "marks-alone"}}
    return [
        policy | name | {"spec": spec | {"matchConditions": conditions, "variables": variables}},
        binding | name | {"spec": {"policyName": "marks-alone"}},
    ]


def gates_of(pod: Manifest) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def gated(api: Api) -> bool:
    """Whether a pod of ours would get our gate if it were created now."""
    return GATE in gates_of(_as_created(api, ours("probe")))


def marked(api: Api) -> bool:
    """Whether a pod that we are to bind would be marked if it were created now."""
    (container,) = _as_created(api, labelled(ours("probe"), "probe"))["spec"]["containers"]
    return MARK_RESOURCE in (container["resources"].get("requests") or {})


def handed_on(api: Api) -> bool:
    """Whether a label of flux-k8s on a Deployment would get to its pods if it were created now."""
    probe = deployment("probe", ours("probe"), 1)
    probe["metadata"]["labels"] = {FLUX_SIZE: "1"}
    path = "/apis/apps/v1/namespaces/default/deployments"
    created = api.request("POST", path, probe, query={"dryRun": "All"})
    return FLUX_SIZE in created["spec"]["template"]["metadata"]["labels"]


def _as_created(api: Api, pod: Manifest) -> Manifest:
    return api.request("POST", "/api/v1/namespaces/default/pods", pod, query={"dryRun": "All"})
