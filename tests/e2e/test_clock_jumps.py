"""Gangs are placed, and run on, when the service's wall clock jumps by an hour."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, indexed_job, ours

HOUR = 3600.0

SHIFTED = """
import os, time
from pathlib import Path

_time, _file = time.time, Path(os.environ["CLOCK_OFFSET"])
time.time = lambda: _time() + float(_file.read_text() or 0)
"""
"""Python runs this at its start; it is how the service's wall clock jumps and nobody else's."""


def bound(namespace: Namespace, prefix: str) -> int:
    return sum(bool(node_of(pod)) for pod in namespace.pods() if pod["metadata"]["name"].startswith(prefix))


@pytest.fixture
def jumping(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[float], None]]:
    """A service whose wall clock the test sets forward or back by so many seconds."""
    (tmp_path / "sitecustomize.py").write_text(SHIFTED)
    offset = tmp_path / "offset"
    offset.write_text("0")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CLOCK_OFFSET", str(offset))

    def jump(seconds: float) -> None:
        changed = tmp_path / "changed"
        changed.write_text(str(seconds))
        changed.replace(offset)

    with installation.other():
        yield jump


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_gangs_are_placed_and_run_on_when_the_clock_jumps(
    seconds: float,
    jumping: Callable[[float], None],
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(*gang("first", 3, cpu="1"), indexed_job("job", ours("x", cpu="1"), 3))
    namespace.wait_until_bound(6)
    before = {pod["metadata"]["uid"] for pod in namespace.pods()}
    jumping(seconds)
    namespace.create(*gang("waits", 3, cpu="1"), *gang("fits", 2, cpu="1"))
    namespace.wait_until_bound(8)
    time.sleep(2)
    assert before <= {pod["metadata"]["uid"] for pod in namespace.pods()}
    assert not bound(namespace, "waits")
    for number in range(3):
        namespace.delete_pod(f"first-{number}")
    wait_for(lambda: bound(namespace, "waits") == 3, what="the gang that waited")
    jumping(0)
    for number in range(2):
        namespace.delete_pod(f"fits-{number}")
    namespace.create(indexed_job("second", ours("x", cpu="1"), 2))
    wait_for(lambda: bound(namespace, "second") == 2, what="the second Job")
