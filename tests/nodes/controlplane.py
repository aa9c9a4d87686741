"""A control plane that real nodes can join: the programs of the local one, reached at the rig's address.

The command lines are the local control plane's, except for what is there because its nodes are played: pods get the
token of their ServiceAccount, new nodes are tainted until they are ready, and the API server may only do to nodes what
the Node authorizer and kubelet's own authorization allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.localcluster import Api, Component, ensure_binaries
from tests.localcluster import components as local
from tests.localcluster.components import Layout, complete_scheduler_config
from tests.localcluster.credentials import Access, LocalAuthority, kubeconfig_text, write_private
from tests.localcluster.process import LOOPBACK
from tests.nodes.network import CONTROL

API_PORT, ETCD_PORT, PEER_PORT, MANAGER_PORT, SCHEDULER_PORT = 6443, 2379, 2380, 10257, 11259
SECONDS = 120.0


class ReachableLayout(Layout):
    """Files and ports, with the API server at the rig's address."""

    __slots__ = ()

    @property
    def api_url(self) -> str:
        """The URL of the API server."""
        return f"https://{CONTROL}:{self.api_port}"


def changed(command: Iterable[str], without: Sequence[str], *added: str) -> list[str]:
    """Return a command line without the options of these names, and with others."""
    kept = [word for word in command if word.partition("=")[0] not in without]
    return [*kept, *added]


class NodesControlPlane:
    """etcd, kube-apiserver, kube-controller-manager and a stock kube-scheduler, as long as the context lasts."""

    def __init__(self, folder: Path) -> None:
        self._at = ReachableLayout(folder, ensure_binaries(), ETCD_PORT, PEER_PORT, API_PORT, MANAGER_PORT)
        access = Access(self._at, [CONTROL])
        self.authority_file = access.authority_file
        self.kubeconfig = self._at.kubeconfig
        self.api = Api(self.kubeconfig)
        self._authority = LocalAuthority(self._at.credentials)
        self._cleanup = ExitStack()
        self._kubelet_client = self._credential_files("apiserver-kubelet-client", "system:masters")
        own = access.for_user("system:kube-controller-manager", "system:masters")
        self.components = self._components(own)

    def __enter__(self) -> NodesControlPlane:
        with ExitStack() as cleanup:
            cleanup.callback(self.api.close)
            for component in self.components:
                cleanup.callback(component.kill)
                component.start()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def kubeconfig_of_node(self, name: str) -> str:
        """Return the kubeconfig of a node's kubelet."""
        return self._kubeconfig(f"system:node:{name}", "system:nodes")

    def kubeconfig_of_proxy(self) -> str:
        """Return the kubeconfig of kube-proxy, which RBAC knows by its name."""
        return self._kubeconfig("system:kube-proxy")

    def _kubeconfig(self, user: str, group: str = "") -> str:
        credential = self._authority.client(user, group)
        return kubeconfig_text(self._at.api_url, self._authority.pem, credential)

    def _credential_files(self, name: str, group: str) -> tuple[Path, Path]:
        credential = self._authority.client(name, group)
        certificate, key = (self._at.credentials / f"{name}.{ending}" for ending in ("crt", "key"))
        write_private(certificate, credential.certificate)
        write_private(key, credential.key)
        return certificate, key

    def _components(self, manager_kubeconfig: Path) -> list[Component]:
        at = self._at
        config: dict[str, Any] = yaml.safe_load(complete_scheduler_config({}, at.kubeconfig))
        file = at.folder / "kube-scheduler.yaml"
        file.write_text(yaml.safe_dump(config))
        manager = changed(local.controller_manager(at, manager_kubeconfig), ["--node-monitor-grace-period"])
        return [
            self._component("etcd", local.etcd(at), f"{at.etcd_url}/health"),
            self._component("kube-apiserver", self._api_server(), f"{at.api_url}/readyz"),
            self._component("kube-controller-manager", manager, f"https://{LOOPBACK}:{MANAGER_PORT}/healthz"),
            self._component(
                "kube-scheduler",
                local.scheduler(at, SCHEDULER_PORT, file, {}, {}),
                f"https://{LOOPBACK}:{SCHEDULER_PORT}/readyz",
            ),
        ]

    def _api_server(self) -> list[str]:
        certificate, key = self._kubelet_client
        return changed(
            local.apiserver(self._at),
            [
                "--bind-address",
                "--endpoint-reconciler-type",
                "--authorization-mode",
                "--disable-admission-plugins",
            ],
            "--bind-address=0.0.0.0",
            f"--advertise-address={CONTROL}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # No kube-proxy runs beside the API server, so it calls the pods behind a Service itself.
            "--enable-aggregator-routing=true",
            f"--kubelet-client-certificate={certificate}",
            f"--kubelet-client-key={key}",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def _component(self, name: str, command: Sequence[str], url: str) -> Component:
        ready = partial(answers, url, self.authority_file)
        return Component(name, command, self._at.log(name), ready, SECONDS)


def answers(url: str, authority: Path) -> bool:
    """Return whether a health check succeeds, or is refused by a server that is up and wants to know who asks."""
    with urllib3.PoolManager(ca_certs=str(authority)) as pool:
        try:
            return pool.request("GET", url, timeout=5, retries=False).status in (200, 401)
        except urllib3.exceptions.HTTPError:
            return False
