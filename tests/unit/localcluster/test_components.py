"""Scheduler configurations, nodes, ports and child processes of a local control plane."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from rich.console import Console

from tests.localcluster.components import complete_scheduler_config
from tests.localcluster.errors import StartFailed
from tests.localcluster.nodes import is_ready, node_manifest, resource_list
from tests.localcluster.process import Component, Ports, poll, tail
from tests.localcluster.progress import step

KUBECONFIG = Path("/k")


def test_scheduler_config_is_the_default_one_when_none_is_given() -> None:
    document = yaml.safe_load(complete_scheduler_config({}, KUBECONFIG))
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert document["clientConnection"]["kubeconfig"] == "/k"
    assert document["leaderElection"] == {"leaderElect": False}


def test_scheduler_config_keeps_its_own_settings() -> None:
    given = {
        "profiles": [{"schedulerName": "fluence"}],
        "clientConnection": {"kubeconfig": "/own", "qps": 5},
        "leaderElection": {"leaderElect": True},
    }
    document = yaml.safe_load(complete_scheduler_config(given, KUBECONFIG))
    assert document["profiles"] == given["profiles"]
    assert document["clientConnection"] == {"kubeconfig": "/own", "qps": 5, "burst": 2000}
    assert document["leaderElection"] == {"leaderElect": True}


def test_node_has_its_resources_as_capacity_and_allocatable() -> None:
    have = resource_list("8", "32Gi", 110, "100Gi", {"example.com/gpu": 4})
    taint = {"key": "k", "effect": "NoSchedule"}
    node = node_manifest("n", have, {"rack": "r1"}, [taint])
    assert node["status"]["allocatable"] == node["status"]["capacity"] == have
    assert have["example.com/gpu"] == "4"
    assert have["pods"] == "110"
    assert node["metadata"]["labels"]["rack"] == "r1"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
    assert node["spec"]["taints"] == [taint]


def test_node_is_ready_by_its_condition_once_the_taint_is_removed() -> None:
    node = node_manifest("n", {}, {}, [])
    assert is_ready(node)
    node["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert not is_ready(node)
    assert not is_ready({"spec": {}, "status": {}})


def test_no_other_process_gets_a_reserved_port_until_it_is_released() -> None:
    ports = Ports()
    port = ports.reserve()
    assert port != ports.reserve()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    with socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        ours.bind(("127.0.0.1", port))
        ours.listen()
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    ports.release()
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))


def python(code: str, log: Path, ready: Callable[[], bool] | None = None, timeout: float = 120) -> Component:
    return Component("program", [sys.executable, "-c", code], log / "program.log", ready, timeout)


def test_component_starts_stops_and_starts_again(tmp_path: Path) -> None:
    component = python("import time; print('hello', flush=True); time.sleep(60)", tmp_path)
    component.start()
    first = component.pid
    component.start()
    assert component.pid == first
    component.stop()
    component.start()
    assert component.running
    assert component.pid != first
    component.kill()
    assert component.pid is None
    component.kill()


def test_component_that_ends_at_once_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    component = python("raise SystemExit('port taken')", tmp_path, ready=lambda: False, timeout=20)
    with pytest.raises(StartFailed, match=r"program isn't running \(exit code 1\)(.|\n)*port taken"):
        component.start()


def test_component_that_is_never_ready_is_an_error(tmp_path: Path) -> None:
    component = python("import time; time.sleep(60)", tmp_path, ready=lambda: False, timeout=0.2)
    with pytest.raises(StartFailed, match=r"wasn't ready within 0\.2 s"):
        component.start()
    component.kill()


def test_component_that_ignores_requests_to_end_is_killed(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    code = f"{deaf}; import time; print('deaf', flush=True); time.sleep(60)"
    component = python(code, tmp_path, ready=lambda: "deaf" in tail(tmp_path / "program.log"))
    component.start()
    component.stop(timeout=0.1)
    assert not component.running


def test_component_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    component = python("import time; print('up', flush=True); time.sleep(60)", tmp_path)
    thread = threading.Thread(target=component.start)
    thread.start()
    thread.join()
    assert poll(lambda: "up" in tail(component.log), 20)
    assert component.running
    component.kill()


PARENT = """
import sys, time
from pathlib import Path
from tests.localcluster.process import Component
child = Component("child", [sys.executable, "-c", "import time; time.sleep(60)"], Path(sys.argv[1]))
child.start()
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_component_dies_with_its_parent(tmp_path: Path, how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.send_signal(how)
    assert poll(lambda: ended(child), 10)


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_tail_is_the_end_of_a_log_and_empty_without_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == ""
    log.write_text("\n".join(map(str, range(1000))))
    assert tail(log, 2) == "998\n999"


def test_progress_off_a_terminal_is_one_line_before_and_one_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.localcluster.progress.time", SimpleNamespace(monotonic=lambda: 7.0))
    out = io.StringIO()
    with step("building [etcd]", Console(file=out)):
        pass
    assert out.getvalue() == "building [etcd] ...\nbuilding [etcd]: done in 0 s\n"


def test_failed_step_is_not_reported_as_done() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="broken"), step("building", Console(file=out)):
        raise ValueError("broken")
    assert out.getvalue() == "building ...\n"
