"""The command line as users run it: the installed script, its exit code and what it says."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

SCRIPT = Path(sysconfig.get_path("scripts")) / "fluence-extender"


def run(
    *arguments: str, environment: Mapping[str, str] | None = None, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run ``fluence-extender`` to its end; ``environment`` is added to ours, less what would configure it."""
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("FLUENCE_") and key != "KUBECONFIG"
    }
    return subprocess.run(
        [str(SCRIPT), *arguments],
        env={**inherited, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
