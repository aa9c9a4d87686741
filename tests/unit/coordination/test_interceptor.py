"""The interceptor in real Python processes, with libraries that stand in for the vendors'.

Each process has the environment that admission gives a container: PYTHONPATH begins with the staged folder, and
FLUENCE_POD_UID is the pod's uid. The project itself isn't importable there.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from fluence_extender.coordination.reports import address, read_report
from fluence_extender.coordination.staging import stage
from tests.unit.coordination.servers import Call, Reply, serving

BRAKET = """
class Task:
    def __init__(self, tags):
        self.id = "arn:task"
        self.tags = tags

class AwsDevice:
    def run(self, circuit, *args, shots=10, **kwargs):
        '''Run a circuit.'''
        return Task(kwargs.get("tags"))
"""
BOTOCORE = """
class Denied(Exception):
    response = {"Error": {"Code": "AccessDeniedException"}}

class BaseClient:
    denies = False
    calls = []

    def _make_api_call(self, operation_name, api_params):
        self.calls.append((operation_name, api_params))
        if self.denies and "tags" in api_params:
            raise Denied()
        return {"quantumTaskArn": "arn:task", "operation": operation_name}
"""
QISKIT = """
class Runtime:
    def program_run(self, program_id, backend_name, params, job_tags=None):
        return {"id": "job-1", "tags": job_tags}
"""
QRMI = """
class QuantumResource:
    def task_start(self, payload):
        if payload is None:
            raise ValueError("no payload")
        return "qrmi-task"
"""


@dataclass
class Container:
    """A container of a pod: a volume with the interceptor, and a folder of the user's own."""

    staged: Path
    own: Path
    uid: str

    def write(self, name: str, text: str) -> None:
        """Write a module of the user's image, with the packages above it."""
        path = self.own / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.parents:
            if parent == self.own:
                break
            (parent / "__init__.py").touch()
        path.write_text(text)

    def run(self, program: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program to its end."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{self.staged}:{self.own}",
            "FLUENCE_POD_UID": self.uid,
            **environ,
        }
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
        return subprocess.run(
            command, env=environment, cwd=self.own, capture_output=True, text=True, timeout=60, check=False
        )

    def says(self, program: str, **environ: str) -> object:
        """Run a program that doesn't fail or complain, and return the JSON that it prints."""
        ended = self.run(program, **environ)
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == ""
        return json.loads(ended.stdout)


@pytest.fixture
def container(tmp_path: Path) -> Container:
    stage(tmp_path / "staged", ())
    one = Container(tmp_path / "staged", tmp_path / "own", str(uuid4()))
    for name, text in {
        "braket.aws.aws_device": BRAKET,
        "botocore.client": BOTOCORE,
        "qiskit_ibm_runtime.api.rest.runtime": QISKIT,
        "qrmi": QRMI,
    }.items():
        one.write(name, text)
    return one


@pytest.fixture
def sidecar(container: Container) -> Iterator[socket.socket]:
    """Listen as the pod's sidecar would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address(container.uid))
        listening.settimeout(30)
        yield listening


def reported(sidecar: socket.socket, container: Container) -> str | None:
    return read_report(sidecar.recv(65536), container.uid)


def hooked(container: Container, module: str, text: str) -> None:
    """Add a third party's hook for ``module``."""
    (container.staged / "hooks" / "third.py").write_text(text)
    with (container.staged / "hooks.txt").open("a") as listed:
        listed.write(f"{module}\tthird.py\n")


# Tags.


def test_braket_tasks_have_the_pods_uid_beside_the_users_tags(container: Container) -> None:
    printed = container.says(
        """
        import json
        from braket.aws.aws_device import AwsDevice
        device = AwsDevice()
        print(json.dumps([
            device.run("circuit").tags,
            device.run("circuit", None, 100, tags={"mine": "1"}).tags,
            device.run("circuit", tags={"fluence-pod-uid": "kept"}).tags,
            AwsDevice.run.__doc__,
        ]))
        """
    )
    tag = {"fluence-pod-uid": container.uid}
    assert printed == [tag, {**tag, "mine": "1"}, {"fluence-pod-uid": "kept"}, "Run a circuit."]


def test_tasks_of_the_client_are_tagged_and_other_calls_left_alone(container: Container) -> None:
    printed = container.says(
        """
        import json
        from botocore.client import BaseClient
        client = BaseClient()
        given = {"shots": 1, "tags": {"mine": "1"}}
        client._make_api_call("CreateQuantumTask", given)
        client._make_api_call("PutObject", {"Key": "x"})
        print(json.dumps([client.calls, given]))
        """
    )
    tags = {"fluence-pod-uid": container.uid, "mine": "1"}
    created = ["CreateQuantumTask", {"shots": 1, "tags": tags}]
    assert printed == [[created, ["PutObject", {"Key": "x"}]], {"shots": 1, "tags": {"mine": "1"}}]


def test_role_that_may_not_tag_still_creates_its_task(container: Container) -> None:
    printed = container.says(
        """
        import json
        from botocore.client import BaseClient
        client = BaseClient()
        client.denies = True
        answer = client._make_api_call("CreateQuantumTask", {"shots": 1})
        print(json.dumps([answer["quantumTaskArn"], [params for _, params in client.calls]]))
        """
    )
    assert printed == ["arn:task", [{"shots": 1, "tags": {"fluence-pod-uid": container.uid}}, {"shots": 1}]]


def test_device_of_a_role_that_may_not_tag_still_runs(container: Container) -> None:
    """The SDK creates its tasks through the client beneath, so both hooks see the same one."""
    container.write(
        "braket.aws.aws_device",
        """
        from botocore.client import BaseClient

        class AwsDevice:
            def run(self, circuit, **kwargs):
                return BaseClient()._make_api_call("CreateQuantumTask", {"shots": 1, **kwargs})
        """.replace("        ", "", 1).replace("\n        ", "\n"),
    )
    printed = container.says(
        """
        import json
        from botocore.client import BaseClient
        from braket.aws.aws_device import AwsDevice
        BaseClient.denies = True
        answer = AwsDevice().run("circuit")
        print(json.dumps([answer["quantumTaskArn"], BaseClient.calls[-1]]))
        """
    )
    assert printed == ["arn:task", ["CreateQuantumTask", {"shots": 1}]]


def test_exception_of_the_users_own_call_reaches_the_user(container: Container) -> None:
    printed = container.says(
        """
        import json
        from botocore.client import BaseClient, Denied
        from qrmi import QuantumResource
        client = BaseClient()
        client.denies = True
        raised = []
        for call in (
            lambda: client._make_api_call("PutObject", {"tags": {}}),
            lambda: QuantumResource().task_start(None),
        ):
            try:
                call()
            except Exception as error:
                raised.append(repr(error))
        print(json.dumps([raised, len(client.calls)]))
        """
    )
    assert printed == [["Denied()", "ValueError('no payload')"], 1]


def test_jobs_of_qiskit_runtime_are_tagged(container: Container) -> None:
    printed = container.says(
        """
        import json
        from qiskit_ibm_runtime.api.rest.runtime import Runtime
        print(json.dumps([
            Runtime().program_run(program_id="sampler", backend_name="ibm_fez", params={}),
            Runtime().program_run("sampler", "ibm_fez", {}, job_tags=["mine"]),
        ]))
        """
    )
    tag = f"fluence-pod-uid={container.uid}"
    assert printed == [{"id": "job-1", "tags": [tag]}, {"id": "job-1", "tags": ["mine", tag]}]


def test_only_requests_to_the_backends_endpoint_name_the_pod(container: Container) -> None:
    calls: list[Call] = []

    def answer(call: Call) -> Reply:
        calls.append(call)
        return Reply(201, {"id": "t"})

    program = """
        import sys, urllib.request
        for url in sys.argv[1:] or []:
            urllib.request.urlopen(url, data=b"{}").read()
        """
    with serving(answer) as endpoint, serving(answer) as other:
        program = program.replace("sys.argv[1:] or []", repr([f"{endpoint}/tasks", f"{other}/elsewhere"]))
        ended = container.run(program, FLUXION_ENDPOINT=endpoint)
    assert ended.returncode == 0, ended.stderr
    assert [(call.path, call.headers.get("fluence-pod-uid")) for call in calls] == [
        ("/tasks", container.uid),
        ("/elsewhere", None),
    ]


# Reports.


@pytest.mark.parametrize(
    ("program", "task"),
    [
        ("from qrmi import QuantumResource; QuantumResource().task_start('payload')", "qrmi-task"),
        ("from braket.aws.aws_device import AwsDevice; AwsDevice().run('circuit')", "arn:task"),
        (
            "from botocore.client import BaseClient as B; B()._make_api_call('CreateQuantumTask', {})",
            "arn:task",
        ),
        (
            "from qiskit_ibm_runtime.api.rest.runtime import Runtime; Runtime().program_run('s', 'b', {})",
            "job-1",
        ),
    ],
)
def test_each_task_is_reported_to_the_sidecar(
    container: Container, sidecar: socket.socket, program: str, task: str
) -> None:
    assert container.run(program).returncode == 0
    assert reported(sidecar, container) == task


def test_task_is_reported_to_a_sidecar_that_starts_late(container: Container) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{container.staged}:{container.own}",
        "FLUENCE_POD_UID": container.uid,
    }
    program = "import qrmi; qrmi.QuantumResource().task_start('p'); print('sent', flush=True); input()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "sent\n"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
            listening.bind(address(container.uid))
            listening.settimeout(60)
            assert reported(listening, container) == "qrmi-task"
        running.communicate("\n", timeout=60)


# Nothing breaks, nothing waits.


def test_program_without_quantum_libraries_runs_unchanged(container: Container) -> None:
    printed = container.says("import json, sys; print(json.dumps(['socket' in sys.modules, sys.argv]))")
    assert printed == [False, ["-c"]]


@pytest.mark.parametrize("missing", ["FLUENCE_POD_UID", "hooks.txt", "fluence_interceptor.py", "hooks"])
def test_missing_parts_change_nothing(container: Container, missing: str) -> None:
    environ = {}
    if missing == "FLUENCE_POD_UID":
        environ[missing] = ""
    else:
        path = container.staged / missing
        path.rename(container.staged / "gone")
    printed = container.says(
        "import json; from braket.aws.aws_device import AwsDevice; print(json.dumps(AwsDevice().run('c').tags))",
        **environ,
    )
    assert printed is None


@pytest.mark.parametrize(
    "damage", ["", "\x00", "raise SystemExit(3)", "import no_such_module", "def start(:", "1/0"]
)
def test_damaged_interceptor_changes_nothing(container: Container, damage: str) -> None:
    (container.staged / "fluence_interceptor.py").write_text(damage)
    ended = container.run("print('fine')")
    assert (ended.returncode, ended.stdout) == (0, "fine\n")


@pytest.mark.parametrize(
    "hook",
    [
        "raise RuntimeError('a bug')",
        "def install(module, pod): raise RuntimeError('a bug')",
        "def install(module, pod): raise SystemExit(3)",
        "def install(module): pass",
        "def install(module, pod): pod.wrap(module, 'no_such_function')",
        "def stop(*_): raise SystemExit(3)\ndef install(module, pod): pod.wrap(module, 'submit', stop)",
        "def install(module, pod): pod.wrap(module, 'submit', after=lambda result: 1 / 0)",
        "def install(module, pod): pod.wrap(module, 'submit', lambda args, kwargs: 5 and None)",
        "not python at all",
        "",
    ],
)
def test_failing_hook_changes_nothing(container: Container, hook: str) -> None:
    container.write("acme.client", "def submit(x):\n    return x * 2\n")
    hooked(container, "acme.client", hook)
    printed = container.says("import json, acme.client; print(json.dumps(acme.client.submit(21)))")
    assert printed == 42


@pytest.mark.parametrize(
    "hook",
    [
        "import time\ntime.sleep(3600)",
        "import time\ndef install(module, pod): time.sleep(3600)",
        "import time\ndef install(module, pod): pod.wrap(module, 'submit', lambda a, k: time.sleep(3600))",
        "import time\ndef install(module, pod): pod.wrap(module, 'submit', after=lambda r: time.sleep(3600))",
        "def install(module, pod):\n    while True:\n        pass",
    ],
)
def test_hanging_hook_is_not_called_again(container: Container, hook: str) -> None:
    """A hundred calls end within the time limit of the process, which isn't enough to wait for each."""
    container.write("acme.client", "def submit(x):\n    return x * 2\n")
    hooked(container, "acme.client", hook)
    printed = container.says(
        "import json, acme.client; print(json.dumps([acme.client.submit(n) for n in range(100)][-1]))"
    )
    assert printed == 198


def test_problems_are_printed_on_request(container: Container) -> None:
    container.write("acme.client", "")
    hooked(container, "acme.client", "def install(module, pod): raise RuntimeError('a bug')")
    ended = container.run("import acme.client", FLUENCE_INTERCEPTOR_DEBUG="1")
    assert ended.returncode == 0
    assert "a bug" in ended.stderr


def test_hook_of_a_third_party_changes_arguments(container: Container) -> None:
    container.write("acme.client", "def submit(x, note=None):\n    return [x, note]\n")
    hooked(
        container,
        "acme.client",
        "def install(module, pod):\n"
        "    pod.wrap(module, 'submit', lambda args, kwargs: (args, {**kwargs, 'note': pod.uid}))\n",
    )
    printed = container.says("import json, acme.client; print(json.dumps(acme.client.submit(1)))")
    assert printed == [1, container.uid]


def test_library_that_can_not_be_imported_fails_unchanged(container: Container) -> None:
    container.write("qrmi", "raise ImportError('libqrmi.so is missing')")
    ended = container.run("import qrmi")
    assert ended.returncode == 1
    assert "libqrmi.so is missing" in ended.stderr
    (container.own / "qrmi.py").unlink()
    assert "No module named 'qrmi'" in container.run("import qrmi").stderr


def test_reloaded_library_is_changed_again(container: Container) -> None:
    printed = container.says(
        """
        import importlib, json
        import braket.aws.aws_device as library
        library = importlib.reload(library)
        print(json.dumps(library.AwsDevice().run("c").tags))
        """
    )
    assert printed == {"fluence-pod-uid": container.uid}


def test_child_processes_are_watched_too(container: Container) -> None:
    printed = container.says(
        """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", '''
        import json
        from braket.aws.aws_device import AwsDevice
        print(json.dumps(AwsDevice().run("c").tags))
        '''.replace("        ", "")], check=True)
        """
    )
    assert printed == {"fluence-pod-uid": container.uid}


# The user's own sitecustomize.


def test_users_own_sitecustomize_runs(container: Container) -> None:
    container.write("sitecustomize", "import sys\nsys.mine = 'ran'\nVALUE = 5\n")
    printed = container.says(
        """
        import json, sys, sitecustomize
        from braket.aws.aws_device import AwsDevice
        print(json.dumps([sys.mine, sitecustomize.VALUE, AwsDevice().run("c").tags]))
        """
    )
    assert printed == ["ran", 5, {"fluence-pod-uid": container.uid}]


def test_path_is_the_same_as_without_the_interceptor(container: Container) -> None:
    container.write("sitecustomize", "import sys\nsys.path.append('/added')\n")
    printed = container.says("import json, sys; print(json.dumps([sys.path[1:3], sys.path[-1]]))")
    assert printed == [[str(container.staged), str(container.own)], "/added"]


def test_exception_of_the_users_sitecustomize_is_shown_unchanged(container: Container) -> None:
    container.write("sitecustomize", "raise RuntimeError('the users own bug')")
    ended = container.run("print('fine')")
    assert (ended.returncode, ended.stdout) == (0, "fine\n")
    assert "the users own bug" in ended.stderr


def test_import_error_of_the_users_sitecustomize_is_shown_unchanged(container: Container) -> None:
    container.write("sitecustomize", "import a_module_that_is_missing")
    ended = container.run("print('fine')")
    assert (ended.returncode, ended.stdout) == (0, "fine\n")
    assert "a_module_that_is_missing" in ended.stderr


def test_program_without_its_own_sitecustomize_prints_nothing(container: Container) -> None:
    ended = container.run("print('fine')")
    assert (ended.stdout, ended.stderr) == ("fine\n", "")
