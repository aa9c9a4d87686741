"""Measure a restart on a large cluster, compared with the time of the lists alone.

A real etcd and kube-apiserver hold the nodes and bound pods; no kubelet and no controller run, so nothing changes. A
start of ``fluence-extender serve`` is timed from the creation of the process to its first 200 of ``/readyz``. For
comparison the lists that the service reads (every kind, in the same pages, all kinds at the same time, by the same
client) are read in a new process that drops the bytes, once more with Python's ``json`` parsing them, and once with
msgspec reading only the metadata. All are measured in turns in one run.

    python -m benchmarks.restart [--write] [--nodes N] [--pods N] [--engine embedded]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.report import PAGES, machine
from benchmarks.restart_fluxion import parts
from fluence_extender.cluster.connection import ApiRequest, connect
from fluence_extender.cluster.pacing import STANDARD
from tests.localcluster.api import Api, Manifest
from tests.localcluster.controlplane import KUBELETS, MANAGER, ControlPlane
from tests.localcluster.nodes import node_manifest, resource_list
from tests.localcluster.process import LOOPBACK

ROUNDS = 3
WRITERS = 32
PATIENCE = 600.0
GOAL = 3.0
GOAL_SIZE = 5_000, 20_000
LISTS = ("/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs", "/api/v1/configmaps")
REPORT = PAGES / "restart.md"
NAMESPACE = "batch"
TITLE = "## Engine "


class _Meta(msgspec.Struct):
    name: str
    uid: str


class _Object(msgspec.Struct):
    metadata: _Meta


class _Objects(msgspec.Struct):
    items: list[_Object]


PARSERS: dict[str, Callable[[bytes], object]] = {
    "bytes": len,
    "json": json.loads,
    "msgspec": msgspec.json.Decoder(_Objects).decode,
}


def pod(number: int, nodes: int) -> Manifest:
    """Make a bound pod of the usual size; every fourth one is foreign."""
    env = [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(8)]
    ports = [{"containerPort": 8000 + index, "name": f"port-{index}"} for index in range(2)]
    requests = {"cpu": f"{500 + number % 5 * 250}m", "memory": f"{1 + number % 3}Gi"}
    ours = number % 4 != 0
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"work-{number}",
            "namespace": NAMESPACE,
            "labels": {
                "app": f"app-{number % 100}",
                "fluence.flux-framework.org/group": f"gang-{number // 16}",
            },
            "annotations": {
                "fluence.flux-framework.org/group-size": "12",
                "example.com/owner": "somebody@example.com",
            },
        },
        "spec": {
            "nodeName": f"node-{number % nodes}",
            "schedulerName": "fluence" if ours else "default-scheduler",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/team/work:1.2.3",
                    "args": ["run", "--size", "16"],
                    "env": env,
                    "ports": ports,
                    "resources": {"requests": requests, "limits": {"memory": "8Gi"}},
                }
            ],
        },
    }


def fill(api: Api, nodes: int, pods: int) -> None:
    """Write all objects."""
    resources = resource_list("32", "128Gi", 110, "100Gi", {})
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    api.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": NAMESPACE},
        }
    )
    made = (
        node_manifest(f"node-{number}", resources, {"topology.kubernetes.io/zone": f"z{number % 10}"}, [])
        for number in range(nodes)
    )
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda one: api.request("POST", "/api/v1/nodes", one), made))
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        list(pool.map(lambda number: api.request("POST", path, pod(number, nodes)), range(pods)))


async def _bare(kubeconfig: str, how: str) -> None:
    """Request all lists and print their wall time, the process's CPU time and the number of bytes."""
    parse, size = PARSERS[how], 0
    version = msgspec.json.Decoder(_Page)

    async def read(path: str) -> None:
        nonlocal size
        query: dict[str, str | int] = {"limit": STANDARD.page}
        while True:
            body = await connection.call(ApiRequest("GET", path, "list", query), 60.0)
            size += len(body)
            parse(body)
            following = version.decode(body).metadata.next_page
            if not following:
                return
            query["continue"] = following

    async with connect(kubeconfig) as connection:
        begun, own = time.monotonic(), time.process_time()
        await asyncio.gather(*(read(path) for path in LISTS))
        print(time.monotonic() - begun, time.process_time() - own, size)


class _PageMeta(msgspec.Struct):
    next_page: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _PageMeta


@dataclass(frozen=True)
class Timed:
    """Seconds of wall time and of the process's CPU time; ``size`` in bytes."""

    wall: float
    own: float
    size: int = 0


def installed(bytecode: Path) -> dict[str, str]:
    """Return an environment in which Python finds bytecode, as pip writes it when it installs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(bytecode)}


def bare(kubeconfig: Path, how: str, environment: Mapping[str, str]) -> Timed:
    """Time the lists in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.restart", "--bare", how, "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    wall, own, size = done.stdout.split()
    return Timed(float(wall), float(own), int(size))


def start(kubeconfig: Path, engine: str, log: Path, environment: Mapping[str, str]) -> Timed:
    """Time one start of the service until it is ready."""
    port, api_port = free_port(), free_port()
    command = [sys.executable, "-m", "fluence_extender", "serve", "--kubeconfig", str(kubeconfig)]
    command += ["--engine", engine, "--port", str(port), "--api-port", str(api_port)]
    begun = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        wait_until_ready(process, api_port, log)
        return Timed(time.monotonic() - begun, cpu_seconds(process.pid))
    finally:
        process.kill()
        process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], api_port: int, log: Path) -> None:
    """Return when the service is ready. Raise `RuntimeError` with the end of its log if it ends or takes too long."""
    begun = time.monotonic()
    while not _ready(f"http://{LOOPBACK}:{api_port}/readyz"):
        if process.poll() is not None or time.monotonic() - begun > PATIENCE:
            raise RuntimeError(f"the service didn't become ready: {log.read_text()[-2000:]}")
        time.sleep(0.05)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        port: int = bound.getsockname()[1]
        return port


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def cpu_seconds(pid: int) -> float:
    """Return a process's seconds of CPU time (proc(5): utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def imports(environment: Mapping[str, str]) -> Timed:
    """Time what a process does first: start Python and import the command."""
    begun = time.monotonic()
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", "import fluence_extender.apps.extender.app"], check=True, env=environment
    )
    after = os.times()
    return Timed(
        time.monotonic() - begun,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


@dataclass
class Found:
    """The measured times by name, and the machine's load before each round (getloadavg(3), one minute)."""

    times: dict[str, list[Timed]]
    loads: list[float]


def measured(nodes: int, pods: int, engine: str) -> Found:
    """Measure everything, alternating, on a local control plane."""
    found = Found({}, [])
    with ControlPlane() as plane:
        for component in (KUBELETS, MANAGER):
            plane.component(component).stop()
        begun = time.monotonic()
        fill(plane.api, nodes, pods)
        print(f"filled in {time.monotonic() - begun:.0f} s", file=sys.stderr)
        environment = installed(plane.folder / "bytecode")
        log = plane.folder / "serve.log"
        # The first run of each command compiles the bytecode that the others find.
        bare(plane.kubeconfig, "bytes", environment)
        start(plane.kubeconfig, engine, log, environment)
        for _ in range(ROUNDS):
            found.loads.append(os.getloadavg()[0])
            note = found.times.setdefault
            for how in PARSERS:
                note(how, []).append(bare(plane.kubeconfig, how, environment))
            note("imports", []).append(imports(environment))
            note("ready", []).append(start(plane.kubeconfig, engine, log, environment))
    return found


HEAD = """# Restart

From the creation of the process `fluence-extender serve` to ready, on a real etcd and kube-apiserver with nodes and
bound pods, three quarters of them this scheduler's; medians in seconds. The bare lists are the service's own, in the
same run and in turns with it. Python finds bytecode, as after an installation by pip. The API server shares the CPUs.
Made by `python -m benchmarks.restart --write`, a section for each engine.
"""


def section(found: Found, nodes: int, pods: int, engine: str) -> str:
    """Return the section of the page for one engine."""
    walls = {name: statistics.median(one.wall for one in times) for name, times in found.times.items()}
    owns = {name: statistics.median(one.own for one in times) for name, times in found.times.items()}
    names = {
        "bytes": "bare lists: bytes only",
        "msgspec": "bare lists, names and uids read with msgspec",
        "json": "bare lists, read with `json.loads`",
        "imports": "Python and the imports alone",
        "ready": "`serve` from its start to ready",
    }
    rows = "\n".join(
        f"| {names[name]} | {walls[name]:.2f} | {owns[name]:.2f} | {walls['ready'] / walls[name]:.2f} |"
        for name in names
    )
    ratio = walls["ready"] / walls["bytes"]
    goal = f"The goal, {GOAL:g} times the bare lists, is set for {GOAL_SIZE[0]:,} nodes and {GOAL_SIZE[1]:,} pods."
    if (nodes, pods) == GOAL_SIZE:
        goal = f"Goal, {GOAL:g} times the bare lists: {'met' if ratio <= GOAL else 'missed'}."
    each = ", ".join(
        f"{ready.wall / lists.wall:.2f}"
        for lists, ready in zip(found.times["bytes"], found.times["ready"], strict=True)
    )
    return f"""{TITLE}{engine}

{nodes:,} nodes and {pods:,} bound pods, {found.times["bytes"][0].size / 2**20:.0f} MiB of JSON; {ROUNDS} rounds.
{machine()}; load average before each round: {", ".join(f"{load:.1f}" for load in found.loads)}.

| | by the clock | of its own CPU | ready over it, by the clock |
|---|---:|---:|---:|
{rows}

Ready after {ratio:.2f} times the bytes alone ({each} round by round). {goal}
"""


def with_section(page: str, engine: str, text: str) -> str:
    """Return the page with a section that replaces the older one of the same engine."""
    parts = page.split(TITLE)[1:] if page.startswith(HEAD) else []
    kept = {part.partition("\n")[0]: f"{TITLE}{part.rstrip()}\n" for part in parts}
    kept[engine] = text
    return "\n".join((HEAD, *(kept[name] for name in sorted(kept))))


def main() -> None:
    """Run the benchmark and print the section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    parser.add_argument("--nodes", type=int, default=GOAL_SIZE[0])
    parser.add_argument("--pods", type=int, default=GOAL_SIZE[1])
    parser.add_argument("--engine", default="embedded", choices=("embedded", "fluxion"))
    parser.add_argument("--bare", choices=tuple(PARSERS), help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        asyncio.run(_bare(arguments.kubeconfig, arguments.bare))
        return
    found = measured(arguments.nodes, arguments.pods, arguments.engine)
    text = section(found, arguments.nodes, arguments.pods, arguments.engine)
    if arguments.engine == "fluxion":
        text += "\n" + parts(arguments.nodes, arguments.pods)
    if arguments.write:
        before = REPORT.read_text(encoding="utf-8") if REPORT.exists() else ""
        REPORT.write_text(with_section(before, arguments.engine, text), encoding="utf-8")
    Console().print(text, markup=False)


if __name__ == "__main__":
    main()
