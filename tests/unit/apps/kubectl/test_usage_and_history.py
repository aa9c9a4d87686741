"""Past work on the command line: who used how much, and what ran."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.apps.kubectl.programs import Fluence, Program

ADA = {
    "name": "ada",
    "seconds": {"cpu": 7200.0, "memory": 2**30 * 1800, "nvidia.com/gpu": 5400},
    "devices": [{"type": "qpu", "backend": "ibm-a", "seconds": 90}],
}
TRAIN = {
    "run": "r1",
    "namespace": "lab",
    "name": "train",
    "convention": "job",
    "workload": "job/train",
    "queue": "physics",
    "user": "ada",
    "account": "grant",
    "created": "2026-06-30T11:00:00Z",
    "started": "2026-06-30T12:00:00Z",
    "ended": "2026-06-30T14:00:00Z",
    "waited": 3600,
    "outcome": "Evicted",
    "promised": "2026-06-30T11:30:00Z",
    "moves": [{"at": "2026-06-30T11:20:00Z", "promised": "2026-06-30T11:30:00Z", "start": None}],
    "pods": 12,
    "nodes": [f"n{number}" for number in range(10)],
    "requests": {"cpu": 12.0},
    "devices": [{"type": "qpu", "backend": "ibm-a", "count": 1}],
}


def answers(kubectl: Program, path: str, *items: dict[str, Any], **metadata: Any) -> None:
    document = {"items": items, "metadata": {"leading": True, **metadata}}
    kubectl.answers(f"/v1/{path}", json.dumps(document))


@pytest.fixture(autouse=True)
def served(kubectl: Program) -> None:
    """A service that has an account of past work."""
    kubectl.answers("config view", "lab")
    answers(kubectl, "usage", ADA)
    answers(kubectl, "history", TRAIN)


def asked(kubectl: Program) -> str:
    """The path that was asked last."""
    return next(word for word in reversed(kubectl.calls[-1]) if "/v1/" in word)


def test_use_is_a_table_of_hours(fluence: Fluence, kubectl: Program) -> None:
    lines = fluence("usage", "--by", "user", "--since", "30d").out.splitlines()
    assert lines[0].split("   ")[0].strip() == "USER"
    assert lines[1].split() == ["ada", "2.0", "0.5", "1.5", "qpu", "ibm-a", "90"]
    assert asked(kubectl).endswith("/v1/usage?by=user&since=30d")


def test_use_is_csv_for_spreadsheets(fluence: Fluence) -> None:
    assert fluence("usage", "--by", "user", "-o", "csv").out.splitlines() == [
        "user,resource,backend,amount,unit",
        "ada,cpu,,2.0,core-hours",
        "ada,memory,,0.5,GiB-hours",
        "ada,nvidia.com/gpu,,1.5,hours",
        "ada,qpu,ibm-a,90,seconds",
    ]


def test_use_is_json_for_programs(fluence: Fluence) -> None:
    assert json.loads(fluence("usage", "-o", "json").out) == {"items": [ADA]}


def test_user_is_told_that_he_sees_a_part(fluence: Fluence, kubectl: Program) -> None:
    answers(kubectl, "usage", ADA, restricted=True)
    assert "only your own work is counted" in fluence("usage").err


def test_what_ran_is_listed(fluence: Fluence, kubectl: Program) -> None:
    lines = fluence("history", "--queue", "physics").out.splitlines()
    assert lines[0].split()[:3] == ["NAME", "QUEUE", "USER"]
    assert lines[1].split()[-1] == "Evicted"
    assert "namespace=lab" in asked(kubectl)
    assert "queue=physics" in asked(kubectl)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("train", "name=train"),
        ("job/train", "workload=job%2Ftrain"),
        ("jobset/train", "name=train"),
        ("ReplicaSet/web-1", "workload=replicaset%2Fweb-1"),
    ],
)
def test_name_stands_for_a_gang_or_the_owner_of_its_pods(
    fluence: Fluence, kubectl: Program, name: str, parameter: str
) -> None:
    assert fluence("history", name).code == 0
    assert parameter in asked(kubectl)


def test_all_about_one_is_shown(fluence: Fluence) -> None:
    text = fluence("history", "job/train").out
    for part in (
        "lab/train: Evicted",
        "ada, in queue physics, on account grant",
        "2026-06-30T12:00:00Z, after 60m",
        "to an unknown time",
        "12 pods on n0, n1, n2, n3, n4, n5, n6, n7 and 2 more",
        "1 qpu of ibm-a",
    ):
        assert part in text


def test_nothing_is_said_in_words(fluence: Fluence, kubectl: Program) -> None:
    answers(kubectl, "usage")
    answers(kubectl, "history")
    assert fluence("usage").err.strip() == "nothing was used"
    assert fluence("history", "job/x").err.strip() == "nothing ran in namespace lab"
