"""The command lines of the control plane's components, and kube-scheduler's configuration.

Everything listens on loopback only. etcd doesn't wait for the disk, because its data must survive the death of a
process but not of the machine. ServiceAccount admission is off, so that a pod can be created without a token;
ServiceAccounts, their tokens and RBAC work. TaintNodesByCondition is off too: nodes are created Ready here, and the
controller manager would need longer to remove the taint than everything else takes (Kubernetes 1.36, 1,000 nodes: 11 of
16 s). The API of native gang scheduling is served (feature GenericWorkload).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.localcluster.process import LOOPBACK
from tests.localcluster.recipe import release

SCHEDULER_API = "kubescheduler.config.k8s.io/v1"
ISSUER = "https://kubernetes.default.svc"

FRONT_PROXY = "front-proxy-client"
"""The user of the certificate with which the API server calls aggregated servers."""

NODE_GRACE = "24h"
"""How long a node may be silent. Nothing renews the Leases of nodes here, and a NotReady node reports itself."""

# For both servers: without it the controller manager doesn't release a deleted PodGroup.
NATIVE_GANGS = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder, the files and the ports of one control plane."""

    folder: Path
    binaries: Mapping[str, Path]
    etcd_port: int
    etcd_peer_port: int
    api_port: int
    manager_port: int

    def log(self, component: str) -> Path:
        """Return the log of ``component``."""
        return self.folder / "logs" / f"{component}.log"

    @property
    def credentials(self) -> Path:
        """The folder of certificates, keys and tokens."""
        return self.folder / "credentials"

    @property
    def front_proxy(self) -> Path:
        """The folder of the authority and the certificate with which the API server calls aggregated servers."""
        return self.credentials / "front-proxy"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    @property
    def etcd_url(self) -> str:
        """The URL of etcd."""
        return f"http://{LOOPBACK}:{self.etcd_port}"

    @property
    def api_url(self) -> str:
        """The URL of the API server."""
        return f"https://{LOOPBACK}:{self.api_port}"


def etcd(at: Layout) -> list[str]:
    """Return the command line of etcd, as a cluster of one member."""
    peer = f"http://{LOOPBACK}:{at.etcd_peer_port}"
    return [
        str(at.binaries["etcd"]),
        "--name=local",
        f"--data-dir={at.folder / 'etcd'}",
        f"--listen-client-urls={at.etcd_url}",
        f"--advertise-client-urls={at.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        "--unsafe-no-fsync",
        "--socket-reuse-port=true",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver(at: Layout) -> list[str]:
    """Return the command line of kube-apiserver, with tokens, client certificates and RBAC."""
    secrets = at.credentials
    return [
        str(at.binaries["kube-apiserver"]),
        f"--etcd-servers={at.etcd_url}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={at.api_port}",
        "--permit-port-sharing=true",
        f"--tls-cert-file={secrets / 'server.crt'}",
        f"--tls-private-key-file={secrets / 'server.key'}",
        f"--client-ca-file={secrets / 'ca.crt'}",
        f"--token-auth-file={secrets / 'tokens.csv'}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={secrets / 'serviceaccounts.key'}",
        f"--service-account-signing-key-file={secrets / 'serviceaccounts.key'}",
        f"--requestheader-client-ca-file={at.front_proxy / 'ca.crt'}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={at.front_proxy / 'client.crt'}",
        f"--proxy-client-key-file={at.front_proxy / 'client.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        f"--admission-control-config-file={secrets / 'admission.yaml'}",
        "--allow-privileged=true",
        NATIVE_GANGS,
        f"--runtime-config={release().pod_groups}=true",
    ]


def controller_manager(at: Layout, kubeconfig: Path) -> list[str]:
    """Return the command line of kube-controller-manager, with limits for hundreds of pods a second.

    ``kubeconfig`` is that of its own user, by whose name policies know its controllers.
    """
    secrets = at.credentials
    return [
        str(at.binaries["kube-controller-manager"]),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={at.kubeconfig}",
        f"--authorization-kubeconfig={at.kubeconfig}",
        "--leader-elect=false",
        *_serving(at, at.manager_port),
        f"--root-ca-file={secrets / 'ca.crt'}",
        f"--service-account-private-key-file={secrets / 'serviceaccounts.key'}",
        f"--node-monitor-grace-period={NODE_GRACE}",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--concurrent-namespace-syncs=10",
        NATIVE_GANGS,
    ]


def scheduler(
    at: Layout,
    port: int,
    config: Path,
    feature_gates: Mapping[str, bool],
    environment: Mapping[str, str],
) -> list[str]:
    """Return the command line of kube-scheduler with the configuration file ``config`` and variables of its own."""
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(feature_gates.items()))
    variables = ["/usr/bin/env", *(f"{name}={value}" for name, value in sorted(environment.items()))]
    return [
        *(variables if environment else ()),
        str(at.binaries["kube-scheduler"]),
        f"--config={config}",
        f"--authentication-kubeconfig={at.kubeconfig}",
        f"--authorization-kubeconfig={at.kubeconfig}",
        *_serving(at, port),
        *([f"--feature-gates={gates}"] if gates else []),
    ]


def complete_scheduler_config(config: Mapping[str, Any], kubeconfig: Path) -> str:
    """Return ``config`` as YAML.

    Add only what it leaves out: the kubeconfig, and no leader election, which would cost seconds at the start.
    """
    connection = {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000}
    document = {
        "apiVersion": SCHEDULER_API,
        "kind": "KubeSchedulerConfiguration",
        **config,
        "clientConnection": connection | (config.get("clientConnection") or {}),
        "leaderElection": {"leaderElect": False} | (config.get("leaderElection") or {}),
    }
    return yaml.safe_dump(document, sort_keys=False)


def kubelets(at: Layout) -> list[str]:
    """Return the command line of the program that plays the kubelets of all nodes."""
    return [str(at.binaries["kubelets"]), f"--kubeconfig={at.kubeconfig}"]


def _serving(at: Layout, port: int) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        "--permit-port-sharing=true",
        f"--tls-cert-file={at.credentials / 'server.crt'}",
        f"--tls-private-key-file={at.credentials / 'server.key'}",
    ]
