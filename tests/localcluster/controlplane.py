"""One control plane, which can be started, used, broken on purpose, and stopped.

    with ControlPlane() as plane:
        plane.add_nodes(4, cpu="8")
        plane.start_scheduler()
        plane.api.create(manifest)

`start` blocks for about 4 s; asynchronous code calls `start` and `stop` through ``asyncio.to_thread``. Invariants: all
components have ended when `stop` returns, and when the process that called `start` ends; a control plane that is
started again on a folder of the caller's has the data that was written there before.
"""

from __future__ import annotations

import atexit
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from tests.localcluster import components
from tests.localcluster.api import Api
from tests.localcluster.binaries import ensure_binaries
from tests.localcluster.components import Layout, complete_scheduler_config
from tests.localcluster.credentials import Access
from tests.localcluster.errors import ApiError, FolderInUse, LocalClusterError
from tests.localcluster.nodes import create_nodes, delete_nodes, node_manifest, resource_list
from tests.localcluster.process import LOOPBACK, Component, Ports, Startable, under_hostname

ETCD = "etcd"
APISERVER = "kube-apiserver"
MANAGER = "kube-controller-manager"
KUBELETS = "kubelets"

T = TypeVar("T")


class ControlPlane(Startable):
    """etcd, kube-apiserver, kube-controller-manager and kubelets on loopback; schedulers on demand.

    ``folder`` holds all its files; without it a temporary folder is used and removed at the end.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._given = folder
        self._cleanup = ExitStack()
        self._components: dict[str, Component] = {}
        self._ports = Ports()
        self._layout: Layout | None = None
        self._access: Access | None = None
        self._api: Api | None = None

    def start(self) -> None:
        """Start everything and wait until it is ready.

        Raise `StartFailed` (with the end of the log), `FolderInUse`, or what `ensure_binaries` raises.
        """
        binaries = ensure_binaries()
        try:
            self._lay_out(binaries)
            self._start_all()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything, and remove a temporary folder."""
        self._cleanup.close()
        self._layout = self._access = self._api = None

    @property
    def folder(self) -> Path:
        """The folder of all its files."""
        return self._at.folder

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig (group system:masters)."""
        return self._at.kubeconfig

    @property
    def url(self) -> str:
        """The API server's URL."""
        return self._at.api_url

    @property
    def api(self) -> Api:
        """A client with the admin's rights."""
        return _started(self._api)

    @property
    def access(self) -> Access:
        """The kubeconfigs of other users and of ServiceAccounts."""
        return _started(self._access)

    def kubeconfig_for(self, user: str, group: str = "") -> Path:
        """Return a kubeconfig of any ``user`` in any ``group``; RBAC decides its rights."""
        return self.access.for_user(user, group)

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig with a new token of the ServiceAccount ``name``, which must exist."""
        return self.access.for_service_account(self.api, namespace, name)

    def component(self, name: str) -> Component:
        """Return a component by name: etcd, kube-apiserver, kube-controller-manager, kubelets, or a scheduler's name.

        A component that was stopped or killed starts again on its old port.
        """
        return self._components[name]

    def log(self, name: str) -> Path:
        """Return the log of the component ``name``."""
        return self._at.log(name)

    def start_scheduler(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        name: str = "kube-scheduler",
        feature_gates: Mapping[str, bool] | None = None,
        hostname: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Component:
        """Start a kube-scheduler and wait until it is ready; `Component.stop` ends it.

        ``config`` is a KubeSchedulerConfiguration (default: kube-scheduler's defaults). The kubeconfig and the leader
        election are added where it leaves them out. Several schedulers at the same time need different ``name``s, and
        either different scheduler names or an election; for an election each needs its own ``hostname`` (see
        `under_hostname`). ``environment`` holds additional variables.

        Raise `StartFailed` or `LocalClusterError`.
        """
        if name in self._components:
            if self._components[name].running:
                raise LocalClusterError(f"a component named {name} runs already")
            self._components.pop(name)
        file = self.folder / f"{name}.yaml"
        file.write_text(complete_scheduler_config(config or {}, self.kubeconfig))
        port = self._ports.reserve()
        command = components.scheduler(self._at, port, file, feature_gates or {}, environment or {})
        if hostname:
            command = under_hostname(hostname, command)
        component = self._add(name, command, partial(self._answers, f"https://{LOOPBACK}:{port}/readyz"))
        component.start()
        return component

    def add_nodes(
        self,
        count: int = 1,
        *,
        prefix: str = "node",
        names: Sequence[str] = (),
        cpu: str | int = "8",
        memory: str | int = "32Gi",
        pods: int = 110,
        ephemeral_storage: str | int = "100Gi",
        extended: Mapping[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        timeout: float = 120,
    ) -> list[str]:
        """Add nodes with these allocatable resources and return their names once all are Ready.

        Their names are ``names`` if given, else ``prefix``-0 to ``prefix``-(``count`` - 1). ``taints`` are in the wire
        form. Raise `ApiError` (409 if a name is taken), or `TimedOut` after ``timeout`` seconds.
        """
        wanted = list(names) or [f"{prefix}-{number}" for number in range(count)]
        have = resource_list(cpu, memory, pods, ephemeral_storage, extended or {})
        create_nodes(self.api, [node_manifest(name, have, labels or {}, taints) for name in wanted], timeout)
        return wanted

    def delete_node(self, *names: str) -> None:
        """Delete these nodes; their pods stay until they are deleted, for example by the pod garbage collector."""
        delete_nodes(self.api, names)

    @property
    def _at(self) -> Layout:
        return _started(self._layout)

    def _lay_out(self, binaries: Mapping[str, Path]) -> None:
        atexit.register(self.stop)
        self._cleanup.callback(atexit.unregister, self.stop)
        folder = self._lock_folder()
        self._cleanup.callback(self._ports.release)
        reserve = self._ports.reserve
        at = self._layout = Layout(folder, binaries, reserve(), reserve(), reserve(), reserve())
        self._access = Access(at)
        self._api = Api(at.kubeconfig)
        self._cleanup.callback(self._api.close)

    def _lock_folder(self) -> Path:
        if self._given is None:
            folder = Path(tempfile.mkdtemp(prefix="fluence-controlplane-"))
            self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
            return folder
        folder = self._given.absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._cleanup.enter_context((folder / "lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(folder) from None
        return folder

    def _start_all(self) -> None:
        at = self._at
        self._cleanup.callback(self._end_all)
        self._add(ETCD, components.etcd(at), partial(self._answers, f"{at.etcd_url}/health")).start()
        self._add(APISERVER, components.apiserver(at), self._api_ready).start()
        healthy = partial(self._answers, f"https://{LOOPBACK}:{at.manager_port}/healthz")
        own = self.kubeconfig_for(f"system:{MANAGER}", "system:masters")
        manager = self._add(MANAGER, components.controller_manager(at, own), healthy)
        manager.launch()
        self._add(KUBELETS, components.kubelets(at)).start()
        manager.wait_ready()

    def _add(self, name: str, command: Sequence[str], ready: Callable[[], bool] | None = None) -> Component:
        component = Component(name, command, self._at.log(name), ready)
        self._components[name] = component
        return component

    def _end_all(self) -> None:
        for name, component in reversed(self._components.items()):
            if name == ETCD:
                component.stop()
            else:
                component.kill()
        self._components.clear()

    def _api_ready(self) -> bool:
        # The default namespace is created only after the server reports ready, and admission may refuse pods until it
        # has loaded its own data.
        return (
            self.api.reachable("/readyz")
            and self.api.reachable("/api/v1/namespaces/default")
            and self._takes_pods()
        )

    def _takes_pods(self) -> bool:
        probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "probe"}]}}
        try:
            self.api.request("POST", "/api/v1/namespaces/default/pods", probe, query={"dryRun": "All"})
        except ApiError:
            return False
        return True

    def _answers(self, url: str) -> bool:
        with urllib3.PoolManager(ca_certs=str(self.access.authority_file)) as pool:
            try:
                return pool.request("GET", url, timeout=5, retries=False).status == HTTPStatus.OK
            except urllib3.exceptions.HTTPError:
                return False


def _started(part: T | None) -> T:
    if part is None:
        raise LocalClusterError("the control plane isn't running")
    return part
