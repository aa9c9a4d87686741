"""Run kubectl: with our own streams to submit, with captured streams and a time limit to read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence

from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed

_LOGGED = re.compile(r' err=("(?:[^"\\]|\\["\\])*")$')


def kubectl_program() -> str:
    """Return the path of kubectl. Raise `CommandError` if it isn't on the PATH."""
    found = shutil.which("kubectl")
    if found is None:
        raise CommandError(
            "kubectl is not on the PATH; install it (https://kubernetes.io/docs/tasks/tools/) or add its folder to PATH"
        )
    return found


def run_kubectl(arguments: Sequence[str], manifest: bytes | None = None) -> int:
    """Run kubectl with our stdout and stderr, ``manifest`` on its stdin, and return its exit code."""
    command = [kubectl_program(), *arguments]
    # kubectl ends by itself on Ctrl-C. A second signal from us would only cut off its last output.
    with subprocess.Popen(command, stdin=None if manifest is None else subprocess.PIPE) as process:
        try:
            process.communicate(manifest)
        except KeyboardInterrupt:
            process.wait()
    code = process.returncode
    return code if code >= 0 else 128 - code


def kubectl_output(arguments: Sequence[str], timeout: float, body: bytes | None = None) -> bytes:
    """Return what kubectl prints, given ``body`` on its standard input; ``timeout`` is in seconds.

    Raise `KubectlFailed` if it fails or takes too long, and `CommandError` if there is no kubectl.
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
        message = lines[-1] if lines else f"kubectl ended with {ended.returncode}"
        # Some commands log their error: E1121 17:54:03.957772 run.go:72] "command failed" err="..."
        logged = _LOGGED.search(message)
        message = json.loads(logged.group(1)) if logged else message
        raise KubectlFailed(message.removeprefix("error: ").removeprefix("Error from server "))
    return ended.stdout
