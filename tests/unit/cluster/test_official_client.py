"""Only the parts of the official client that we use are loaded, and the whole client is still there for others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fluence_extender.cluster.official_client import passing


def run(program: str) -> list[str]:
    """Run ``program`` in a new process, and return the lines that it prints."""
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_connections_load_no_models_and_not_the_other_half_of_the_client() -> None:
    loaded = run(
        "import sys, fluence_extender.cluster.connection\n"
        "print(*(name for name in sys.modules if name.startswith('kubernetes')), sep='\\n')"
    )
    assert "kubernetes.aio.client.rest" in loaded
    assert not {"kubernetes", "kubernetes.aio"} & set(loaded)
    for unused in ("kubernetes.client", "kubernetes.aio.dynamic", "kubernetes.aio.leaderelection"):
        assert not [name for name in loaded if name.startswith(unused)]
    assert not [name for name in loaded if ".models." in name or ".api." in name]


def test_the_whole_client_can_be_imported_afterwards() -> None:
    assert run(
        "import fluence_extender.cluster.connection\n"
        "import kubernetes.aio, kubernetes.client\n"
        "from fluence_extender.cluster.official_client import Configuration\n"
        "print(kubernetes.client.V1Pod.__name__, kubernetes.aio.client.CoreV1Api.__name__)\n"
        "print(kubernetes.aio.client.Configuration is Configuration, kubernetes.__version__ > '37')"
    ) == ["V1Pod CoreV1Api", "True True"]


def test_a_client_that_is_imported_already_is_used() -> None:
    assert run(
        "import kubernetes.aio\n"
        "import sys, fluence_extender.cluster.connection\n"
        "print(sys.modules['kubernetes'] is kubernetes)"
    ) == ["True"]


def test_a_missing_package_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_client"), passing("no_such_client"):
        pass
