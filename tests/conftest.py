"""Options of the whole test suite."""

from __future__ import annotations

import pytest

from tests.engines import FLUXION


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        metavar="PATH",
        help="run the end-to-end tests against the cluster that this kubeconfig names, not a local one",
    )


def pytest_report_header() -> str:
    state = "yes" if FLUXION.library else "no"
    return f"engines: embedded yes; fluxion {state} ({FLUXION.told})"
