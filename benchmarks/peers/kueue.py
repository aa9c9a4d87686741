"""Kueue's manager, with its integration of Jobs alone, and with no webhook registered; and as a peer that runs Jobs.

Its webhooks fill in what users leave out and refuse what is wrong. The Jobs of a measurement are complete, and its own
objects get their defaults from their definitions. So the API server calls no webhook, which saves Kueue that time.

Kueue admits a Job where its quota has room, and leaves its pods to a scheduler. So nothing keeps a gang together on the
nodes. A quota that the cluster's nodes can't give admits Jobs that then wait with some of their pods running.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from benchmarks.peers.peer import Programs, define
from benchmarks.peers.programs import KUEUE
from benchmarks.throughput.contenders import StockScheduler
from benchmarks.throughput.workloads import STOCK, Form, Manifest
from fluence_extender.model.names import KUEUE_QUEUE_LABEL
from tests.localcluster import ControlPlane
from tests.localcluster.credentials import LocalAuthority
from tests.localcluster.stack import free_ports

QPS, BURST = 2_000, 4_000
"""The limits of its client's rate, which are 300 and 500 by default."""

WITH_CERTIFICATES = (
    "mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && "
    'cp -r "$0" /etc/kueue/metrics/certs && exec "$@"'
)
"""Its metrics read their certificate from a fixed place. It gets that place in a file system that it alone sees."""


class Kueue:
    """Its manager on ``plane``; it wants to be root, for a file system of its own."""

    name = "kueue"

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._programs = Programs(plane, self.name)

    def start(self) -> None:
        """Define its resources, and start the manager. Raise `NotBuilt` or `StartFailed`."""
        define(self._plane, KUEUE.manifests("config/components/crd/bases/*.yaml"))
        webhook, probe = free_ports(2)
        folder = self._plane.folder / self.name
        certificates = _certificates(folder)
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(_config(certificates, webhook, probe)))
        command: list[str | Path] = [
            *("unshare", "--mount", "--", "sh", "-c", WITH_CERTIFICATES, certificates),
            *(KUEUE.program("cmd/kueue"), f"--config={config}", "--feature-gates=VisibilityOnDemand=false"),
        ]
        self._programs.start("manager", command, f"http://127.0.0.1:{probe}/readyz")

    def stop(self) -> None:
        """Stop the manager."""
        self._programs.stop()

    @property
    def own(self) -> dict[str, int]:
        """Return the manager's process."""
        return self._programs.own


QUEUE, VERSION = "all", "kueue.x-k8s.io/v1beta2"


def _queued(job: Manifest) -> None:
    job["metadata"]["labels"][KUEUE_QUEUE_LABEL] = QUEUE
    job["spec"]["suspend"] = True


def _objects() -> tuple[Manifest, ...]:
    """Return a queue without a bound that matters, for Jobs of all namespaces."""
    quotas = [{"name": name, "nominalQuota": quota} for name, quota in (("cpu", "1M"), ("memory", "1Pi"))]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": QUEUE, "resources": quotas}],
    }
    return (
        {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": QUEUE}},
        {
            "apiVersion": VERSION,
            "kind": "ClusterQueue",
            "metadata": {"name": QUEUE},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
    )


class KueueJobs(Kueue):
    """Kueue admits Jobs in one queue of ``namespace``, and kube-scheduler with its defaults places their pods."""

    name = "Kueue"
    form = Form(STOCK, submitted=_queued)

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane)
        self._namespace = namespace
        self._scheduler = StockScheduler(plane)

    def start(self) -> None:
        """Start both, and make the queue. Raise `NotBuilt` or `StartFailed`."""
        super().start()
        local = {"apiVersion": VERSION, "kind": "LocalQueue", "metadata": {"name": QUEUE}}
        for one in (*_objects(), local | {"spec": {"clusterQueue": QUEUE}}):
            self._plane.api.apply(one, self._namespace)
        self._scheduler.start()

    def stop(self) -> None:
        """Stop both."""
        self._scheduler.stop()
        super().stop()

    @property
    def processes(self) -> dict[str, int]:
        """Return the processes of both and of the control plane."""
        return self._scheduler.processes | self.own


def _certificates(folder: Path) -> Path:
    """Return a folder with a serving certificate."""
    found = folder / "certificates"
    found.mkdir(parents=True, exist_ok=True)
    server = LocalAuthority(found).server()
    (found / "tls.crt").write_bytes(server.certificate)
    (found / "tls.key").write_bytes(server.key)
    return found


def _config(certificates: Path, webhook: int, probe: int) -> dict[str, object]:
    """Return the configuration that its manifests ship, with these differences."""
    (shipped,) = KUEUE.manifests("config/components/manager/controller_manager_config.yaml")
    return shipped | {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probe}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": QPS, "burst": BURST},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
    }
