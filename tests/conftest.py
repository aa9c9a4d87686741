"""Options of the whole test suite."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from tests.engines import FLUXION
from tests.localcluster.recipe import release

# A run of the suite tries the same examples each time, so that a failure is the change's own; the nightly run looks for
# new ones. Neither judges speed: that is the benchmarks' work.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("nightly", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# As the commands log. With all local variables, which is the default, one traceback can hold a loop up for a minute.
plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])

# Processes are started by the hundred: they compile our modules once and not each of them anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        metavar="PATH",
        help="run the end-to-end tests against the cluster that this kubeconfig names, not a local one",
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    state = "yes" if FLUXION.library else "no"
    cluster = config.getoption("--kubeconfig") or f"Kubernetes {release().kubernetes} on this machine"
    return [f"libreapi_cli: {state} ({FLUXION.description})", f"end-to-end tests: {cluster}"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files: the quick ones first, then those of the control plane mixed with the long computations.

    Those that change the installation on real nodes come last, because the last of them removes it.

    A test on the control plane waits more than it computes, so the two share the cores well. Of the quick files those
    with many tests come first. Of the others those with few tests, which are the slow ones, so that quick ones fill the
    end.
    """
    sizes = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[bool, bool, int, Path]:
        late = item.nodeid.startswith(("tests/integration/cluster/", "tests/e2e/", "tests/property/"))
        size = sizes[item.path]
        return item.path.name == "life.py", late, size if late else -size, item.path

    items.sort(key=place)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo what a command that runs in this process sets up."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
