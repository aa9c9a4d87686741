"""Containers of admitted pods, run as processes: nodes of the local control plane run none.

A process gets what kubelet would give its container: the command and the environment of the pod's spec, the mounts as
folders of its own, and for the sidecar the rights of the pod's ServiceAccount and no others.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from fluence_extender.localcluster import ControlPlane
from fluence_extender.model.coordination import SIDECAR_CONTAINER, STAGE_CONTAINER, STAGED
from tests.e2e.admitted import containers, environment
from tests.e2e.harness import Manifest

BIN = Path(sys.executable).parent
LIMIT = 60.0


class RunningPod:
    """The processes of one pod, in ``folder``; they are gone after the context."""

    def __init__(self, plane: ControlPlane, pod: Manifest, folder: Path) -> None:
        self.pod = pod
        self.folder = folder
        self.log = folder / "sidecar.log"
        self._plane = plane
        self._running: list[subprocess.Popen[bytes]] = []
        self._files: list[IO[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> RunningPod:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._running:
            with suppress(ProcessLookupError):
                one.kill()
            one.wait(LIMIT)
        for file in self._files:
            file.close()

    def stage(self) -> None:
        """What the init container does."""
        command = containers(self.pod)[STAGE_CONTAINER]["command"]
        mounted = [word.replace(STAGED, str(self.folder / "staged")) for word in command]
        subprocess.run(
            mounted, env=self._environment(STAGE_CONTAINER), cwd=self.folder, check=True, timeout=LIMIT
        )

    def python(self, program: str) -> str:
        """Run a user's program in the pod's main container; what it prints."""
        ended = subprocess.run(
            ["python3", "-c", program],
            env=self._environment("main"),
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        return ended.stdout.strip()

    def sidecar(self) -> subprocess.Popen[bytes]:
        """Start the sidecar; it writes to ``log``."""
        spec = containers(self.pod)[SIDECAR_CONTAINER]
        account = self.pod["spec"]["serviceAccountName"]
        namespace = self.pod["metadata"]["namespace"]
        kubeconfig = self._plane.kubeconfig_for_service_account(namespace, account)
        environ = {**self._environment(SIDECAR_CONTAINER), "KUBECONFIG": str(kubeconfig)}
        log = self.log.open("ab")
        self._files.append(log)
        running = self._start([str(BIN / spec["command"][0]), *spec["command"][1:]], environ, log)
        self._running.append(running)
        return running

    def _start(
        self, command: Sequence[str], environ: dict[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env=environ, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT)

    def _environment(self, container: str) -> dict[str, str]:
        said = environment(self.pod, container)
        mounted = {key: value.replace(STAGED, str(self.folder / "staged")) for key, value in said.items()}
        return {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(self.folder), **mounted}
