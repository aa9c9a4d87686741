"""``kubectl fluence`` as users run it: the real kubectl, which finds our program on the PATH."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "selection"
SCRIPTS = sysconfig.get_path("scripts")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A user's shell: a kubeconfig for one namespace, and an ``aws`` that writes down that it was called."""

    kubeconfig: Path
    aws_calls: Path
    clone: Path = ROOT

    def run(
        self, *words: str, stdin: str = "", kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``kubectl WORDS`` in the clone's folder."""
        return self._run(["kubectl", *words], stdin, kubeconfig)

    def fluence(
        self, *words: str, stdin: str = "", kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``kubectl fluence WORDS`` in the clone's folder."""
        return self._run(["kubectl", "fluence", *words], stdin, kubeconfig)

    def shell(self, line: str) -> str:
        """What one line of shell prints, on stdout and stderr."""
        return self._run(["sh", "-c", f"exec 2>&1; {line}"], "", None).stdout

    def _run(
        self, command: list[str], stdin: str, kubeconfig: Path | None
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.aws_calls.parent), SCRIPTS, os.environ["PATH"]])
        return subprocess.run(
            command,
            env={**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig or self.kubeconfig)},
            cwd=self.clone,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


def user_shell(kubeconfig: Path, namespace: str, folder: Path) -> Plugin:
    """A shell for ``namespace`` with the rights of ``kubeconfig``."""
    document = yaml.safe_load(kubeconfig.read_text())
    for context in document["contexts"]:
        context["context"]["namespace"] = namespace
    own = folder / "kubeconfig"
    own.write_text(yaml.safe_dump(document))
    calls = folder / "bin" / "aws-calls"
    calls.parent.mkdir()
    aws = calls.with_name("aws")
    aws.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\nexit 1\n')
    aws.chmod(0o755)
    return Plugin(own, calls)
