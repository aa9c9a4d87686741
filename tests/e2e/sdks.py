"""Stand-ins for the vendors' SDKs, with the interface that the quantum examples use."""

from __future__ import annotations

import zipfile
from pathlib import Path

BRAKET = """
import json, os, urllib.request
from urllib.parse import quote

def ask(method, path, body=None):
    headers = {"Authorization": "AWS4 Credential=a/b/us-west-1/braket"}
    url = os.environ["AWS_ENDPOINT_URL_BRAKET"] + path
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())

class Result:
    measurement_counts = {"00": 51, "11": 49}

class AwsQuantumTask:
    def __init__(self, arn):
        self.id = arn

    def result(self):
        assert ask("GET", "/quantum-task/" + quote(self.id, safe=""))["quantumTaskArn"] == self.id
        return Result()

class AwsDevice:
    def __init__(self, arn):
        self.arn = arn

    def run(self, circuit, shots, tags=None):
        task = {"deviceArn": self.arn, "shots": shots, "tags": tags}
        return AwsQuantumTask(ask("POST", "/quantum-task", task)["quantumTaskArn"])
"""
CIRCUITS = """
class Circuit:
    def h(self, *qubits):
        return self
    cnot = h
"""
QRMI = """
import os
from enum import Enum

ResourceType = Enum("ResourceType", ["IBMQiskitRuntimeService"])
TaskStatus = Enum("TaskStatus", ["Queued", "Running", "Completed"])

class Payload:
    class QiskitPrimitive:
        def __init__(self, input, program_id):
            self.input = input

class TaskResult:
    value = "counts"

class QuantumResource:
    def __init__(self, resource_id, resource_type):
        self.endpoint = os.environ[resource_id + "_QRMI_IBM_QRS_ENDPOINT"]

    def task_start(self, payload):
        assert payload.input == "{}"
        return "job-1"

    def task_status(self, task):
        return TaskStatus.Completed

    def task_result(self, task):
        return TaskResult()
"""

SDKS = {
    "amazon-braket-sdk": {
        "braket/__init__.py": "",
        "braket/circuits.py": CIRCUITS,
        "braket/aws/__init__.py": "from braket.aws.aws_device import AwsDevice, AwsQuantumTask\n",
        "braket/aws/aws_device.py": BRAKET,
    },
    "qrmi": {"qrmi.py": QRMI},
}
"""The modules of each, by the name under which pip installs it."""


def installed(name: str, folder: Path) -> Path:
    """Write the modules of an SDK into a folder, as pip would install them."""
    for path, text in SDKS[name].items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def wheel(name: str, folder: Path) -> Path:
    """Write the wheel of an SDK, for pip to install."""
    distribution = f"{name.replace('-', '_')}-0"
    about = f"{distribution}.dist-info"
    files = {
        **SDKS[name],
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    target = folder / f"{distribution}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return target
