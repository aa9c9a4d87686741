"""Options of the whole test suite."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings

from tests.background_build import LOG, BackgroundBuild, failure_of
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

BUILD = pytest.StashKey[BackgroundBuild]()
FAILURE = pytest.StashKey[str]()
"""Why there is no control plane, nothing if there is one; known once the build has ended."""
SECONDS_IF_BUILT = 5.0
"""How long the build takes at most if nothing is missing; with that, it is nearly always a second."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        metavar="PATH",
        help="run the end-to-end tests against the cluster that this kubeconfig names, not a local one",
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    state = "yes" if FLUXION.library else "no"
    cluster = config.getoption("--kubeconfig") or f"Kubernetes {release().kubernetes} on this machine"
    return [f"engines: embedded yes; fluxion {state} ({FLUXION.description})", f"end-to-end tests: {cluster}"]


def waits_for_build(nodeid: str, config: pytest.Config) -> bool:
    """Return whether the test runs on the local control plane, by the folder that it is in."""
    folders = ("tests/integration/cluster/", "tests/e2e/")
    return nodeid.startswith(folders[:1] if config.getoption("--kubeconfig") else folders)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files: the quick ones first, then those of the control plane mixed with the long computations.

    Those that change the installation on real nodes come last, because the last of them removes it.

    A test on the control plane waits more than it computes, so the two share the cores well. While the control plane is
    built, the first part keeps the processes busy. Files with many tests come first within each part, so that short
    ones fill the end.
    """
    sizes = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[bool, bool, int, Path]:
        late = item.nodeid.startswith(("tests/integration/cluster/", "tests/e2e/", "tests/property/"))
        return item.path.name == "life.py", late, -sizes[item.path], item.path

    items.sort(key=place)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[BUILD] = BackgroundBuild()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process that will run tests (pytest-xdist) where the build is."""
    node.workerinput["build"] = str(node.config.stash[BUILD].folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    start_build(node.config, ids)


def pytest_collection_finish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        start_build(session.config, [item.nodeid for item in session.items])


def start_build(config: pytest.Config, nodeids: Sequence[str]) -> None:
    """Build the local control plane, if need be, while tests run that don't need it."""
    build = config.stash[BUILD]
    if build.started or not any(waits_for_build(nodeid, config) for nodeid in nodeids):
        return
    build.start()
    if build.runs_for(SECONDS_IF_BUILT):
        # pytest-xdist would order the files by their size alone, and all its processes would soon wait for the build.
        config.option.loadscopereorder = False
        config.get_terminal_writer().line(
            f"building the control plane meanwhile; the tests on it wait (log: {build.folder / LOG})"
        )


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the build before the test's time begins to run."""
    if FAILURE not in item.config.stash and waits_for_build(item.nodeid, item.config):
        item.config.stash[FAILURE] = failure_of(build_folder(item.config))
    return (yield)


def build_folder(config: pytest.Config) -> Path:
    if hasattr(config, "workerinput"):
        return Path(config.workerinput["build"])
    return config.stash[BUILD].folder


def pytest_runtest_setup(item: pytest.Item) -> None:
    if waits_for_build(item.nodeid, item.config) and item.config.stash[FAILURE]:
        pytest.fail("there is no control plane; the end of the report says why", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    build = config.stash[BUILD]
    if build.started and not build.runs_for(0) and (failure := failure_of(build.folder)):
        terminalreporter.section("no control plane", red=True)
        terminalreporter.line(failure)


def pytest_unconfigure(config: pytest.Config) -> None:
    if BUILD in config.stash:
        config.stash[BUILD].end()


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo what a command that runs in this process sets up."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
