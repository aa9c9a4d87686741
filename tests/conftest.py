"""Options of the whole test suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from fluence_extender.localcluster import LocalClusterError, ensure_binaries
from tests.engines import FLUXION

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


def pytest_report_header() -> str:
    state = "yes" if FLUXION.library else "no"
    return f"engines: embedded yes; fluxion {state} ({FLUXION.description})"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the local control plane, if need be, before any test's time begins to run, and say so meanwhile."""
    here = Path(__file__).parent
    users = [here / "integration"]
    if not session.config.getoption("--kubeconfig"):
        users.append(here / "e2e")
    if not session.config.option.collectonly and any(
        folder in item.path.parents for item in session.items for folder in users
    ):
        with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            try:
                ensure_binaries()
            except LocalClusterError as error:
                pytest.exit(str(error), returncode=1)
