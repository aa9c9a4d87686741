"""What runs in the rig's namespaces: the nodes, the installation, and the tests on them.

    python -m tests.nodes.inside FOLDER GROUP PYTEST_ARGUMENT...

FOLDER is for the rig's files, GROUP is the control group of its nodes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.nodes.archives import IMAGES
from tests.nodes.mounts import set_up_rig
from tests.nodes.programs import kubelet
from tests.nodes.rig import NAMES, Rig
from tests.nodes.store import STORE, link, prepared

ALL = "tests/e2e"
FILES = "test_*.py in_containers.py on_nodes.py life.py"
"""Of these names: pytest drops files that are named beside their folder."""


class Plugin:
    """Gives tests the rig."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    @pytest.fixture
    def rig(self) -> Rig:
        """The nodes and what is installed on them."""
        return self._rig


def main(folder: Path, group: str, arguments: Sequence[str]) -> int:
    """Run the tests, and return pytest's exit code. With --shell, run a shell in their place."""
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"{what}: {time.monotonic() - begun:.0f} s", flush=True)

    home = folder.parent
    store = prepared(home, sorted((home / IMAGES).iterdir()))
    for name in NAMES:
        link(store, folder / name / STORE)
    tell("The images are unpacked")
    set_up_rig(folder)
    with Rig(group, kubelet()) as rig:
        tell("The nodes are ready")
        rig.install()
        tell("What deploy/ installs is ready")
        if arguments[:1] == ["--shell"]:
            return subprocess.call(["bash", *arguments[1:]], env=rig.environment)
        named = any(Path(one.partition("::")[0]).exists() for one in arguments)
        where = arguments if named else [ALL, *arguments]
        options = [f"--override-ini=python_files={FILES}", f"--kubeconfig={rig.plane.kubeconfig}", *where]
        code = pytest.main(options, plugins=[Plugin(rig)])
        if code != pytest.ExitCode.OK:
            rig.tell_logs()
        return int(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
