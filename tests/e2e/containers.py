"""Containers of admitted pods, run as processes: nodes of the local control plane run none.

A process gets what kubelet would give its container: the command and the environment of the pod's spec, the mounts as
folders of its own, and for the sidecar the token that it mounts.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from fluence_extender.model.coordination import SIDECAR_CONTAINER, STAGE_CONTAINER, STAGED
from tests.e2e.admitted import containers, environment, sidecars_token
from tests.e2e.harness import Manifest, Namespace, wait_for
from tests.localcluster import ControlPlane

BIN = Path(sys.executable).parent
LIMIT = 300.0
"""Seconds; a program may wait for what a test waits for too, and longer than one wait does."""


class RunningPod:
    """The processes of one pod, in ``folder``; they are gone after the context.

    ``mounts`` are folders that stand for mounts of the user's, by the path in the container.
    """

    def __init__(
        self, plane: ControlPlane, pod: Manifest, folder: Path, mounts: Mapping[str, Path] | None = None
    ) -> None:
        self.pod = pod
        self.folder = folder
        self.log = folder / "sidecar.log"
        self._plane = plane
        self._mounts = {STAGED: folder / "staged", **(mounts or {})}
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
        environ = self._environment(STAGE_CONTAINER)
        subprocess.run(self._mounted(command), env=environ, cwd=self.folder, check=True, timeout=LIMIT)

    def python(self, program: str) -> str:
        """Run a user's program in the pod's main container; what it prints."""
        return self._main(["python3", "-c", program])

    def main(self) -> str:
        """Run what the main container runs, to its end; what it prints."""
        return self._main(containers(self.pod)["main"]["command"])

    def _main(self, command: Sequence[str]) -> str:
        ended = subprocess.run(
            self._mounted(command),
            env=self._environment("main"),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def sidecar(self) -> subprocess.Popen[bytes]:
        """Start the sidecar; it writes to ``log``."""
        spec = containers(self.pod)[SIDECAR_CONTAINER]
        namespace = Namespace(self.pod["metadata"]["namespace"], self._plane.api)
        token = wait_for(lambda: sidecars_token(namespace), what="the token of the sidecar")
        kubeconfig = self._plane.access.for_token(f"{namespace.name}.{SIDECAR_CONTAINER}", token)
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
        said = {**self._from_secrets(container), **environment(self.pod, container)}
        mounted = dict(zip(said, self._mounted(said.values()), strict=True))
        return {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(self.folder), **mounted}

    def _from_secrets(self, container: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in containers(self.pod)[container].get("envFrom") or ():
            namespace, name = self.pod["metadata"]["namespace"], one["secretRef"]["name"]
            secret = self._plane.api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
            found |= {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        return found

    def _mounted(self, words: Iterable[str]) -> list[str]:
        """``words`` with the folders that stand for mounts."""
        found = []
        for word in words:
            for path, folder in self._mounts.items():
                word = word.replace(path, str(folder))
            found.append(word)
        return found
