"""The command line: what it prints, and that what goes wrong is told in one message, without a traceback."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from fluence_extender import __version__
from tests.e2e.commands import SCRIPT, run
from tests.e2e.harness import LONGEST
from tests.e2e.installation import BASE
from tests.e2e.nodes import NodeFactory
from tests.e2e.workloads import RESOURCES
from tests.localcluster import ControlPlane

COMMANDS = ("serve", "scheduler-config", "graph", "check", "demo", "version")


def refused(*arguments: str, code: int = 1, **environment: str) -> str:
    """What a command that must fail says on stderr."""
    ended = run(*arguments, environment=environment)
    assert ended.returncode == code, ended
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.fixture(scope="module")
def overview() -> str:
    """What the program says of all its commands."""
    shown = run("--help")
    assert shown.returncode == 0
    return shown.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_each_command(command: str, overview: str) -> None:
    shown = run(command, "--help")
    assert shown.returncode == 0
    assert re.search(rf"^  {command}  +\S", overview, re.MULTILINE)
    assert len(shown.stdout) > 100


def test_help_of_serve_names_every_option_with_its_environment() -> None:
    text = re.sub(r"\s+", " ", run("serve", "--help").stdout)
    for option in (
        *("kubeconfig", "resources", "engine", "policy", "host", "port", "api-host", "api-port"),
        *("resources-namespace", "completion-limit", "log-format"),
    ):
        assert f"--{option} " in text
        assert f"FLUENCE_{option.upper().replace('-', '_')}" in text
    for engine in ("auto", "fluxion", "embedded"):
        assert engine in text


def test_version_names_the_engine() -> None:
    shown = run("version", environment={"FLUXION_LIBRARY": "/nonexistent"})
    assert shown.returncode == 0
    assert shown.stdout.startswith(f"fluence-extender {__version__} (engine: embedded")


def test_scheduler_config_is_the_one_that_is_deployed() -> None:
    shown = run("scheduler-config", "--lease", "fluence-system/fluence")
    assert shown.returncode == 0
    assert yaml.safe_load(shown.stdout) == yaml.safe_load((BASE / "scheduler.yaml").read_text())


def test_scheduler_config_takes_url_and_kubeconfig() -> None:
    shown = run("scheduler-config", "--url", "http://127.0.0.1:9/", "--kubeconfig", "/etc/k")
    document = yaml.safe_load(shown.stdout)
    assert [extender["urlPrefix"] for extender in document["extenders"]] == ["http://127.0.0.1:9"]
    assert document["clientConnection"]["kubeconfig"] == "/etc/k"
    assert "must begin with http://" in refused("scheduler-config", "--url", "localhost", code=2)


def test_kube_scheduler_takes_the_printed_config(control_plane: ControlPlane) -> None:
    shown = run("scheduler-config", "--kubeconfig", str(control_plane.kubeconfig))
    printed = shown.stdout.replace("schedulerName: fluence", "schedulerName: printed")
    scheduler = control_plane.start_scheduler(yaml.safe_load(printed), name="printed")
    assert scheduler.running
    scheduler.stop()


def test_graph_prints_the_live_cluster(
    control_plane: ControlPlane, own_nodes: NodeFactory, tmp_path: Path
) -> None:
    names = own_nodes(2, cpu="2", memory="2Gi")
    file = tmp_path / "resources.yaml"
    file.write_text(RESOURCES)
    access = ("--kubeconfig", str(control_plane.kubeconfig), "--resources", str(file))
    shown = run("graph", *access)
    assert (shown.returncode, shown.stderr) == (0, "")
    vertices = [one["metadata"] for one in json.loads(shown.stdout)["graph"]["nodes"]]
    real = {one["name"] for one in vertices if "virtual=false" in one.get("properties", {})}
    virtual = {one["name"] for one in vertices if "virtual=true" in one.get("properties", {})}
    assert real == set(names)
    assert virtual == {"ibm_fez", "rigetti_ankaa"}
    assert sum(one["type"] == "core" for one in vertices) == 4


def test_check_accepts_a_good_file(tmp_path: Path) -> None:
    file = tmp_path / "resources.yaml"
    file.write_text(RESOURCES)
    shown = run("check", str(file))
    assert (shown.returncode, shown.stdout) == (0, f"{file}: valid; resource types: qpu\n")


def test_check_names_every_fault_with_file_line_and_fix(tmp_path: Path) -> None:
    file = tmp_path / "resources.yaml"
    file.write_text("resources:\n  - {type: qpu, name: a, count: -1}\n  - {name: b, typ: qpu}\n")
    told = refused("check", str(file))
    assert told.count(str(file)) >= 3
    assert "count" in told
    assert "must be a whole number from 1" in told
    assert "missing required field 'type'" in told
    assert "is an unknown key" in told


def test_file_that_is_not_there_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    missing = tmp_path / "nothing.yaml"
    assert f"resources file {missing} doesn't exist" in refused("check", str(missing))
    told = refused("serve", "--kubeconfig", str(control_plane.kubeconfig), "--resources", str(missing))
    assert f"resources file {missing} doesn't exist" in told


def test_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing, garbage = tmp_path / "missing", tmp_path / "garbage"
    garbage.write_text("clusters: 3\n")
    for command in ("serve", "graph"):
        assert f"kubeconfig {missing} doesn't exist" in refused(command, "--kubeconfig", str(missing))
        assert str(garbage) in refused(command, "--kubeconfig", str(garbage))
        assert str(missing) in refused(command, FLUENCE_KUBECONFIG=str(missing))


def test_port_that_is_taken_is_named(control_plane: ControlPlane) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for option, other in (("--port", "--api-port"), ("--api-port", "--port")):
            told = refused(
                "serve",
                "--kubeconfig",
                str(control_plane.kubeconfig),
                *(option, port, other, "0", "--engine", "embedded"),
            )
            *progress, error = told.splitlines()
            assert f"can't listen on 127.0.0.1:{port}" in error
            assert all("listing the cluster" in line for line in progress)


def test_engine_without_its_library_refuses_and_says_what_to_install(control_plane: ControlPlane) -> None:
    told = refused(
        "serve",
        *("--kubeconfig", str(control_plane.kubeconfig), "--engine", "fluxion"),
        FLUXION_LIBRARY="/nonexistent/libreapi_cli.so",
    )
    assert "/nonexistent/libreapi_cli.so (FLUXION_LIBRARY)" in told
    assert "Install flux-sched >= 0.53" in told


@pytest.mark.parametrize(
    "wrong",
    [
        ("--policy", "best"),
        ("--engine", "slurm"),
        ("--port", "70000"),
        ("--completion-limit", "-1"),
        ("--level", "rack"),
        ("--no-such-option",),
    ],
)
def test_wrong_option_is_a_usage_error(wrong: tuple[str, ...]) -> None:
    told = refused("serve", *wrong, code=2)
    assert wrong[0] in told


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_cleanly_when_asked_to(stop: signal.Signals, control_plane: ControlPlane) -> None:
    command = [str(SCRIPT), "serve", "--port", "0", "--api-port", "0", "--log-format", "json"]
    with subprocess.Popen(
        [*command, "--kubeconfig", str(control_plane.kubeconfig), "--engine", "embedded"],
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stderr
        try:
            assert json.loads(serving.stderr.readline())["event"] == "listing the cluster"
            listening = serving.stderr.readline()
            assert listening.startswith(f"fluence-extender {__version__}: verbs on http://127.0.0.1:")
            # A machine that is slow may have more to tell.
            assert "ready" in (json.loads(line)["event"] for line in serving.stderr)
            serving.send_signal(stop)
            assert serving.wait(LONGEST) == 0
            assert "Traceback" not in serving.stderr.read()
        finally:
            serving.kill()
