"""The demo on an embedded cluster, with the service's real listeners."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from rich.console import Console

from fluence_extender.demo import DemoError
from fluence_extender.demo.embedded import EmbeddedSite
from fluence_extender.demo.run import dashboard_of, demonstrate
from fluence_extender.demo.view import Row


@pytest.fixture(scope="module")
def site() -> Iterator[EmbeddedSite]:
    with EmbeddedSite(6, "lonode") as started:
        yield started


@pytest.fixture(scope="module")
def shown(site: EmbeddedSite) -> list[Row]:
    found: list[Row] = []
    demonstrate(Console(file=io.StringIO()), site, found.extend)
    return found


def states(shown: list[Row], gang: str) -> set[str]:
    return {row.state for row in shown if row.gang == gang}


@pytest.mark.parametrize(
    ("gang", "members", "state"),
    [
        ("training", 3, "bound"),
        ("simulation", 4, "finished"),
        ("native", 2, "bound"),
        ("mixed", 2, "bound"),
        ("neighbours", 3, "bound"),
        ("exchange", 4, "finished"),
        ("too-big", 2, "waiting"),
    ],
)
def test_gang_ends_whole(shown: list[Row], gang: str, members: int, state: str) -> None:
    assert sum(row.gang == gang for row in shown) == members
    assert states(shown, gang) == {state}
    placed = {bool(row.node) for row in shown if row.gang == gang}
    assert placed == {state != "waiting"}


def test_quantum_pod_shows_its_backend(shown: list[Row]) -> None:
    (quantum,) = [row for row in shown if row.gang == "quantum"]
    assert (quantum.state, quantum.phase, quantum.backend) == ("bound", "Running", "ibm_fez")


def test_gang_that_is_too_big_says_why(shown: list[Row]) -> None:
    assert {row.reason for row in shown if row.gang == "too-big"} == {
        "unsatisfiable: no node has 64 cpu (the largest has 4 cpu), for 1 of 2 members"
    }


def test_pod_of_the_default_scheduler_runs_beside_ours(shown: list[Row]) -> None:
    (theirs,) = [row for row in shown if row.gang == "-"]
    assert theirs.pod.startswith("theirs-")
    assert (theirs.phase, theirs.reason) == ("Succeeded", "placed by default-scheduler")


def test_gang_with_a_topology_is_on_one_node(shown: list[Row]) -> None:
    assert len({row.node for row in shown if row.gang == "exchange"}) == 1


def test_state_api_answers_as_in_a_cluster(site: EmbeddedSite, shown: list[Row]) -> None:
    with urllib.request.urlopen(f"{site.api_url}/v1/nodes", timeout=10) as answer:
        assert len(json.load(answer)["items"]) == 6
    with urllib.request.urlopen(f"{site.api_url}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    assert 'verb="filter"' in metrics
    assert 'verb="bind"' in metrics


def test_ended_site_says_so() -> None:
    site = EmbeddedSite(1, "lonode")
    with site:
        pass
    with pytest.raises(DemoError, match="has ended"):
        site.pods()


def test_command_runs_until_it_is_interrupted_and_leaves_nothing() -> None:
    command = [sys.executable, "-m", "fluence_extender", "demo", "--nodes", "3", "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout
        assert demo.stderr
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if "/v1/gangs" in line and "curl" in line:
                break
        (address,) = [line.split()[-1] for line in lines if "The dashboard is at" in line]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=20) as answer:
            assert "How full the cluster is" in answer.read().decode()
        (exported,) = [line.split()[-1] for line in lines if line.strip().startswith("export ")]
        for word in ("jobs", "doctor"):
            plugin = [sys.executable, "-m", "fluence_extender.apps.kubectl.main", word]
            env = {**os.environ, **dict([exported.split("=")]), "KUBECONFIG": os.devnull}
            asked = subprocess.run(plugin, env=env, capture_output=True, text=True, timeout=60, check=False)
            assert asked.returncode == 0, asked
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 0
        assert "Traceback" not in demo.stderr.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)
    text = "".join(lines)
    assert "Simulated: the API server" in text
    assert "docs/start.md" in text
    assert "Press Ctrl-C" in text


def test_demo_without_the_dashboards_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluence_extender.demo.run.PACKAGE", "a_package_that_nobody_has")
    with dashboard_of("http://127.0.0.1:1") as line:
        assert "pip install 'fluence-extender[dashboard]'" in line
