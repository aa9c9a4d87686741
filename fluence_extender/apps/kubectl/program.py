"""Calling kubectl: to submit, with our own streams; to read, with a limit on time."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence

from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed

_LOGGED = re.compile(r' err=("(?:[^"\\]|\\["\\])*")$')


def kubectl_program() -> str:
    """Where kubectl is. Raises `CommandError`."""
    found = shutil.which("kubectl")
    if found is None:
        raise CommandError(
            "kubectl is not on the PATH; install it (https://kubernetes.io/docs/tasks/tools/) or add its folder to PATH"
        )
    return found


def run_kubectl(arguments: Sequence[str], manifest: bytes | None = None) -> int:
    """Run kubectl with our stdout and stderr, ``manifest`` on its stdin, and return its exit code."""
    command = [kubectl_program(), *arguments]
    # kubectl ends by itself on Ctrl-C; a second signal of ours would only cut its last words.
    with subprocess.Popen(command, stdin=None if manifest is None else subprocess.PIPE) as process:
        try:
            process.communicate(manifest)
        except KeyboardInterrupt:
            process.wait()
    code = process.returncode
    return code if code >= 0 else 128 - code


def ask_kubectl(arguments: Sequence[str], timeout: float, body: bytes | None = None) -> bytes:
    """What kubectl prints, given ``body`` on standard input; ``timeout`` in seconds.

    Raises `KubectlFailed`, and `CommandError` without kubectl.
    """
    command = [kubectl_program(), *arguments]
    try:
        ended = subprocess.run(
            command, input=b"" if body is None else body, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise KubectlFailed(f"no answer within {timeout:.0f} s") from None
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        told = lines[-1] if lines else f"kubectl ended with {ended.returncode}"
        # Some of its commands log what goes wrong: E1121 17:54:03.957772 run.go:72] "command failed" err="..."
        logged = _LOGGED.search(told)
        told = json.loads(logged.group(1)) if logged else told
        raise KubectlFailed(told.removeprefix("error: ").removeprefix("Error from server "))
    return ended.stdout
