"""One node: containerd, kubelet and kube-proxy in namespaces of their own, as a machine that can be switched off.

    python -m tests.nodes.node NAME NUMBER GROUP

The command is what runs in the namespaces: it mounts what a node needs, and keeps the three programs running, as an
init system does. `Node` is the rig's side of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import yaml

from tests.localcluster import Component
from tests.nodes import groups
from tests.nodes.isolation import isolated
from tests.nodes.mounts import RIG, set_up_node
from tests.nodes.network import DNS_SERVICE, Address, join_node, leave_node
from tests.nodes.programs import COMPONENTS, program, search_path
from tests.nodes.store import answers, containerd_config, ctr

KUBE_PROXY_GROUP = "kubeproxy.config.k8s.io/v1alpha1"
CONTROL_PLANE_ROLE = "node-role.kubernetes.io/control-plane"
AGAIN_SECONDS = 1.0


def folder_of(name: str) -> Path:
    """Return the folder of a node, which outlives its restarts."""
    return RIG / name


def cni_config(address: Address) -> str:
    """Return the configuration of pods' links: each has its own to the node, which routes."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": address.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        # Gone after a reboot, as the links are.
        "dataDir": "/run/containerd/addresses",
    }
    plugins = [{"type": "ptp", "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins})


def kubelet_config(folder: Path, group: str, taints: Sequence[Mapping[str, str]]) -> str:
    """Return the configuration of kubelet."""
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        "oomScoreAdj": 0,
        # Limits for all pods together would name the processors that there are not; see `CPUS`.
        "enforceNodeAllocatable": ["none"],
        # The machine's disk is shared with whatever else is on it.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
        "registerWithTaints": list(taints),
    }
    return yaml.safe_dump(document)


def proxy_config(folder: Path, name: str, address: Address) -> str:
    """Return the configuration of kube-proxy."""
    document = {
        "apiVersion": KUBE_PROXY_GROUP,
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": name,
        "clusterCIDR": "10.78.0.0/16",
        "clientConnection": {"kubeconfig": str(folder / "kube-proxy.kubeconfig")},
        "oomScoreAdj": 0,
        # What of these belongs to the machine may not be changed in a network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "bindAddress": address.host,
    }
    return yaml.safe_dump(document)


class Node:
    """A node of the rig, by its ``name``; ``kubelet`` is the program that is kube-proxy too."""

    def __init__(self, name: str, address: Address, group: str, kubelet: Path) -> None:
        self.name = name
        self.address = address
        self.group = f"{group}/{name}"
        self.folder = folder_of(name)
        self._kubelet = kubelet
        command = isolated("tests.nodes.node", name, str(address.number), self.group, network=False)
        within = [program("nsenter"), f"--net=/run/netns/{name}", *command]
        self.machine = Component(name, within, self.log("node"), partial(answers, self.folder))

    def log(self, program: str) -> Path:
        """Return the log of one of its programs."""
        return RIG / "logs" / f"{self.name}-{program}.log"

    def write(
        self,
        authority: bytes,
        kubelet: str,
        proxy: str,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Write its configuration; ``kubelet`` and ``proxy`` are kubeconfigs."""
        files = {
            "ca.crt": authority.decode(),
            "kubelet.kubeconfig": kubelet,
            "kube-proxy.kubeconfig": proxy,
            "containerd.toml": containerd_config(self.folder, Path("/run/containerd")),
            "cni/pods.conflist": cni_config(self.address),
            "kubelet.yaml": kubelet_config(self.folder, self.group, taints),
            "kube-proxy.yaml": proxy_config(self.folder, self.name, self.address),
            "resolv.conf": "",
        }
        for path, text in files.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for name in COMPONENTS:
            (self.folder / name).symlink_to(self._kubelet)

    def switch_on(self, all_nodes: Sequence[Address]) -> None:
        """Start it, without waiting until it is ready."""
        # Where this exists kubelet doesn't make it, and so doesn't give it processors.
        groups.make(f"{self.group}/kubepods")
        join_node(self.name, self.address, all_nodes)
        self.machine.start()

    def switch_off(self) -> None:
        """End all that runs on it at once, as a power failure does."""
        self.machine.kill()
        leave_node(self.name)
        groups.remove(self.group)

    def restart(self, program: str) -> None:
        """End one of its programs with SIGTERM; the node starts it again."""
        for found in self._processes(program):
            os.kill(found, signal.SIGTERM)

    def containers(self) -> list[str]:
        """Return the ids of the containers that containerd has, running or not, sandboxes too."""
        return ctr(self.folder, "containers", "list", "--quiet").split()

    def _processes(self, program: str) -> list[int]:
        path = str(self.folder / program).encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if entry.read_bytes().split(b"\0")[0] == path:
                    found.append(int(entry.parent.name))
            except OSError:
                continue
        return found


def programs(name: str, address: Address) -> dict[str, list[str]]:
    """Return the command lines of a node's programs."""
    folder = folder_of(name)
    return {
        "containerd": ["containerd", f"--config={folder}/containerd.toml"],
        "kubelet": [
            f"{folder}/kubelet",
            f"--config={folder}/kubelet.yaml",
            f"--kubeconfig={folder}/kubelet.kubeconfig",
            f"--root-dir={folder}/kubelet-root",
            f"--cert-dir={folder}/pki",
            f"--hostname-override={name}",
            f"--node-ip={address.host}",
        ],
        "kube-proxy": [f"{folder}/kube-proxy", f"--config={folder}/kube-proxy.yaml"],
    }


def keep_running(name: str, commands: Mapping[str, Sequence[str]]) -> None:
    """Start the commands, start each again that ends, and reap what they leave; never return."""
    environ = {**os.environ, "PATH": search_path()}
    running: dict[int, str] = {}

    def start(one: str) -> None:
        with (RIG / "logs" / f"{name}-{one}.log").open("ab") as log:
            process = subprocess.Popen(
                commands[one], env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        running[process.pid] = one

    for one in commands:
        start(one)
    while True:
        ended, _ = os.wait()
        if ended in running:
            time.sleep(AGAIN_SECONDS)
            start(running.pop(ended))


def main(name: str, number: str, group: str) -> None:
    """Be the node; ``group`` is its control group, which it enters."""
    address = Address(int(number))
    folder = folder_of(name)
    set_up_node(folder)
    Path("/proc/sys/kernel/hostname").write_text(name)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
    keep_running(name, programs(name, address))


if __name__ == "__main__":
    main(*sys.argv[1:])
