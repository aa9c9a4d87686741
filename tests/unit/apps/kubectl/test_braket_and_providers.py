"""Live queue and status through the ``aws`` program, and providers of other packages."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fluence_extender.apps.kubectl.braket import queue_size, read_device
from fluence_extender.selection.backend import Backend
from fluence_extender.selection.providers import BackendQuery, Description
from tests.unit.apps.kubectl.manifests import POD, REQUIRE, load, notes_of, result_of
from tests.unit.apps.kubectl.programs import Ended, Fluence, Program

ARN = "arn:aws:braket:{}::device/qpu/{}"
FILE = f"""
backends:
  - {{name: slow, device_arn: "{ARN.format("us-west-1", "slow")}", cost_per_task: 1}}
  - {{name: fast, device_arn: "{ARN.format("", "fast")}", region: us-east-1, cost_per_task: 2}}
  - {{name: queue-box, cost_per_task: 3, attributes: {{queue_size: 900}}}}
"""


@pytest.fixture
def select(fluence: Fluence, aws: Program) -> Fluence:
    """Return a function that selects for a pod with a policy."""
    Path("a.yaml").write_text(FILE)

    def run(policy: str, *words: str) -> Ended:
        text = POD.replace("require:min_memory_gb=24,min-cost", policy)
        return fluence("select", "-f", "-", "--attributes=a.yaml", *words, stdin=text)

    return run


def device(status: str, normal: str, priority: str = "0") -> str:
    queues = [
        {"queue": "JOBS_QUEUE", "queueSize": "77"},
        {"queue": "QUANTUM_TASKS_QUEUE", "queuePriority": "Priority", "queueSize": priority},
        {"queue": "QUANTUM_TASKS_QUEUE", "queuePriority": "Normal", "queueSize": normal},
    ]
    return json.dumps({"deviceStatus": status, "deviceQueueInfo": queues})


def test_the_shorter_queue_of_ordinary_tasks_wins(select: Fluence, aws: Program) -> None:
    aws.answers("qpu/slow", out=device("ONLINE", "12", priority="0"))
    aws.answers("qpu/fast", out=device("ONLINE", "3", priority="99"))
    (pod,) = load(select("min-queue").out)
    assert notes_of(pod)[REQUIRE] == "fast"
    (chosen,) = result_of(pod)["candidates"]
    assert chosen["attributes"]["queue_size"] == 3
    assert chosen["strings"]["status"] == "ONLINE"
    calls = sorted(aws.calls)
    assert [call[:4] for call in calls] == [
        ["braket", "get-device", "--device-arn", ARN.format("", "fast")],
        ["braket", "get-device", "--device-arn", ARN.format("us-west-1", "slow")],
    ]
    assert [call[4:] for call in calls] == [
        ["--output", "json", "--region", "us-east-1"],
        ["--output", "json", "--region", "us-west-1"],
    ]


@pytest.mark.parametrize("policy", ["min-cost", "prefer:queue-box,min-cost", "prefer:online-only,max-cost"])
def test_aws_is_not_called_if_no_step_needs_it(policy: str, select: Fluence, aws: Program) -> None:
    assert select(policy).code == 0
    assert aws.calls == []


@pytest.mark.parametrize("policy", ["online-only,min-cost", "require:status=ONLINE,min-cost"])
def test_status_of_every_possible_backend_is_queried(policy: str, select: Fluence, aws: Program) -> None:
    aws.answers("qpu/slow", out=device("OFFLINE", "1"))
    aws.answers("qpu/fast", out=device("ONLINE", "1"))
    ended = select(policy)
    assert notes_of(load(ended.out)[0])[REQUIRE] == "fast"
    assert "dropped slow: " in ended.err
    assert "status is OFFLINE" in ended.err


def test_a_failed_query_drops_the_backend_with_its_reason(select: Fluence, aws: Program) -> None:
    aws.answers("qpu/slow", err="\nAn error occurred (ExpiredToken): the token has expired\n", code=254)
    aws.answers("qpu/fast", out="no json")
    ended = select("min-queue")
    assert ended.code == 0
    assert notes_of(load(ended.out)[0])[REQUIRE] == "queue-box"
    assert "dropped slow: min-queue: has no queue_size (aws: ExpiredToken)" in ended.err
    assert "dropped fast: min-queue: has no queue_size (aws gave no device)" in ended.err


def test_errors_of_aws_are_printed_but_not_recorded(select: Fluence, aws: Program) -> None:
    aws.answers("braket", err="An error occurred (AccessDenied): arn:aws:iam::123:user/me may not", code=254)
    ended = select("min-queue")
    assert "note: slow: An error occurred (AccessDenied): arn:aws:iam::123:user/me may not" in ended.err
    assert "user/me" not in ended.out
    assert "AccessDenied" in ended.out


def test_missing_aws_is_a_note(select: Fluence, programs: Path) -> None:
    (programs / "aws").unlink()
    ended = select("online-only,min-cost")
    assert ended.code == 0
    assert "note: Pod/train: provider braket-live: aws is not on the PATH; install the AWS CLI" in ended.err
    assert notes_of(load(ended.out)[0])[REQUIRE] == "queue-box"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("12", 12),
        (">4000", 4001),
        (" > 10 ", 11),
        ("", 1e9),
        ("many", 1e9),
        ("-3", 1e9),
        ("²", 1e9),
    ],
)
def test_queue_sizes_are_read(text: str, size: float) -> None:
    assert queue_size(text) == size


def test_a_device_without_a_status_is_unknown() -> None:
    assert read_device("a", {}) == Backend("a", {}, {"status": "UNKNOWN"})


class Elsewhere:
    """A provider as another package might have it."""

    name = "elsewhere"

    def wanted(self, needs: frozenset[str]) -> bool:
        return "fidelity" in needs

    def describe(self, query: BackendQuery) -> Description:
        return Description(
            tuple(
                Backend(one.name, {"fidelity": len(one.name), "odd": float("nan")}) for one in query.backends
            )
        )


def test_other_packages_may_add_providers(select: Fluence, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("broken", "nowhere:Nothing", "fluence_extender.backend_attributes"),
        EntryPoint("elsewhere", f"{__name__}:Elsewhere", "fluence_extender.backend_attributes"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    ended = select("max-fidelity")
    assert notes_of(load(ended.out)[0])[REQUIRE] == "queue-box"
    assert "note: provider broken can't be loaded: No module named 'nowhere'" in ended.err
