"""Kueue's manager, with its integration of Jobs alone, and with no webhook registered.

Its webhooks fill in what users leave out and refuse what is wrong. The Jobs of a measurement are complete, and its own
objects get their defaults from their definitions. So the API server calls no webhook, which saves Kueue that time.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from benchmarks.peers.peer import Programs, define
from benchmarks.peers.programs import KUEUE
from fluence_extender.demo.stack import free_ports
from fluence_extender.localcluster import ControlPlane
from fluence_extender.localcluster.credentials import LocalAuthority

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
