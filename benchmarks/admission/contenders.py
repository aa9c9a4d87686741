"""Who admits the Jobs: Kueue's manager, or this project's extender. Pods don't exist, so no scheduler runs."""

from __future__ import annotations

from typing import Protocol

import yaml

from benchmarks.admission.shape import Manifest, Submitted, job, local_queues, of_kueue, of_ours
from benchmarks.peers.kueue import Kueue
from benchmarks.peers.peer import define
from fluence_extender.demo.manifests import shipped
from fluence_extender.demo.stack import Stack
from fluence_extender.localcluster import ControlPlane
from fluence_extender.model.names import DEFAULT_NAMESPACE, KUEUE_QUEUE_LABEL, QUEUE_LABEL, SCHEDULER_NAME


class Admitter(Protocol):
    """One that admits Jobs; ``own`` are its process ids, by the name in the report."""

    name: str

    def start(self) -> None:
        """Start it, and return once it is ready and has its queues."""
        ...

    def enter(self, namespace: str) -> None:
        """Let Jobs of a new namespace name its queues."""
        ...

    def job(self, one: Submitted) -> Manifest:
        """Return the Job as its users submit it."""
        ...

    def stop(self) -> None:
        """Stop it."""
        ...

    @property
    def own(self) -> dict[str, int]:
        """Return the process ids by name."""
        ...


class KueueAdmits(Kueue):
    """Kueue with the objects of its own performance test."""

    def start(self) -> None:
        """Start the manager, and make its queues."""
        super().start()
        for one in of_kueue():
            self._plane.api.apply(one)

    def enter(self, namespace: str) -> None:
        """Make the namespace's LocalQueues."""
        for one in local_queues():
            self._plane.api.apply(one, namespace)

    def job(self, one: Submitted) -> Manifest:
        """Return a suspended Job that names its LocalQueue."""
        made = job(one)
        made["metadata"]["labels"][KUEUE_QUEUE_LABEL] = one.queue
        made["spec"]["suspend"] = True
        return made


class FluenceAdmits:
    """The extender with Queues made from Kueue's objects, and with the rights that ``deploy/`` grants it."""

    name = "fluence"

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        account = plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence")
        self._stack = Stack(plane, kubeconfig=account)

    def start(self) -> None:
        """Make the queues, and start the extender."""
        define(self._plane, shipped("queues"))
        for one in yaml.safe_load_all(of_ours()):
            self._plane.api.apply(one)
        self._stack.extender.start()

    def enter(self, namespace: str) -> None:
        """Leave the namespace as it is: the Queues take Jobs of all namespaces."""

    def job(self, one: Submitted) -> Manifest:
        """Return a Job that names its Queue; the policy of ``deploy/`` suspends it."""
        made = job(one)
        made["metadata"]["labels"][QUEUE_LABEL] = one.queue
        made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
        return made

    def stop(self) -> None:
        """Stop the extender."""
        self._stack.stop()

    @property
    def own(self) -> dict[str, int]:
        """Return the extender's process."""
        self._stack.extender.check()
        pid = self._stack.extender.pid
        assert pid is not None
        return {"extender": pid}
