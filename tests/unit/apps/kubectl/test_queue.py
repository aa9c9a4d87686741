"""The queue on the command line: the gangs in line, and the writes that the user's own kubectl makes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.apps.kubectl.programs import Fluence, Program

CREATED = "2026-06-30T12:00:00Z"
HOLD = "fluence.flux-framework.org/hold"


def queue(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "stop": "None",
        "waiting": 0,
        "running": 0,
        "limits": {},
        "head": "",
        "expected_start": None,
        "oldest": None,
        "problems": [],
        "used": {},
        "borrowed": {},
        "guaranteed": {},
        "limit": {},
        "share": 0.0,
        **fields,
    }


def entry(position: int, name: str, **fields: Any) -> dict[str, Any]:
    return {
        "position": position,
        "namespace": "default",
        "name": name,
        "convention": "job",
        "queue": "physics",
        "user": "ada",
        "priority": 0,
        "created": CREATED,
        "held": False,
        "reason": "",
        "why": "",
        "expected_start": None,
        "reserved_nodes": [],
        **fields,
    }


def answers(kubectl: Program, path: str, *items: dict[str, Any], hidden: int = 0) -> None:
    document = {"items": items, "metadata": {"leading": True, "hidden": hidden}}
    kubectl.answers(f"/v1/{path}", json.dumps(document))


@pytest.fixture(autouse=True)
def served(kubectl: Program) -> None:
    """A service with two queues."""
    kubectl.answers("config view", "default")
    answers(
        kubectl, "queues", queue("default", waiting=2), queue("physics", stop="Hold", limits={"running": 4})
    )


def written(kubectl: Program) -> list[list[str]]:
    """The calls of kubectl that change something."""
    return [call for call in kubectl.calls if call[0] in ("annotate", "label", "patch")]


def test_queues_are_listed(fluence: Fluence) -> None:
    lines = fluence("queue").out.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["NAME", "STOP", "WAITING", "RUNNING"],
        ["default", "-", "2", "0"],
        ["physics", "Hold", "0", "0"],
    ]
    assert "running=4" in fluence("queue", "list", "-o", "wide").out


def test_line_is_shown_with_positions(fluence: Fluence, kubectl: Program) -> None:
    answers(
        kubectl,
        "queue?",
        entry(1, "big", reason="busy: 1 of 4 fit now", reserved_nodes=["n1", "n2"]),
        entry(3, "small", reason="behind a reservation"),
        hidden=1,
    )
    ended = fluence("queue", "show", "physics")
    rows = [line.split() for line in ended.out.splitlines()]
    assert [row[:4] for row in rows[1:]] == [["1", "big", "physics", "ada"], ["3", "small", "physics", "ada"]]
    assert "busy: 1 of 4 fit now" in ended.out
    assert "1 more are in namespaces whose pods you may not list" in ended.err
    assert "n1, n2" in fluence("queue", "show", "-o", "wide").out


@pytest.mark.parametrize(("action", "value"), [("hold", "true"), ("release", "false")])
def test_object_is_held_with_the_users_own_rights(
    fluence: Fluence, kubectl: Program, action: str, value: str
) -> None:
    assert fluence("queue", action, "deployment/web", "-n", "lab", "--context", "here").code == 0
    assert written(kubectl) == [
        ["annotate", "deployment/web", f"{HOLD}={value}", "--overwrite", "--namespace=lab", "--context=here"]
    ]


@pytest.mark.parametrize(
    ("name", "convention", "words"),
    [
        ("train", "job", ["jobs.batch", "train"]),
        ("gang/js/workers", "jobset", ["jobsets.jobset.x-k8s.io", "js"]),
        ("g", "group", ["pods", "g-0", "g-1"]),
        ("gang/g", "pod", ["pods", "g-0", "g-1"]),
    ],
)
def test_name_of_a_gang_stands_for_its_object_or_its_pods(
    fluence: Fluence, kubectl: Program, name: str, convention: str, words: list[str]
) -> None:
    plain = name.removeprefix("gang/")
    members = [{"pod": f"{plain}-{number}", "node": "", "backend": ""} for number in range(2)]
    gang = {"name": plain, "state": "waiting", "convention": convention, "members": members}
    answers(kubectl, "gangs", gang)
    assert fluence("queue", "hold", name).code == 0
    (call,) = written(kubectl)
    assert call[1 : 1 + len(words)] == words


def test_gang_is_moved_to_a_queue_that_exists(fluence: Fluence, kubectl: Program) -> None:
    assert fluence("queue", "move", "job/train", "physics").code == 0
    (call,) = written(kubectl)
    assert call[:3] == ["label", "job/train", "fluence.flux-framework.org/queue=physics"]
    ended = fluence("queue", "move", "job/train", "phisics")
    assert (ended.code, ended.err.strip()) == (1, 'error: no queue phisics; did you mean "physics"?')
    assert len(written(kubectl)) == 1


@pytest.mark.parametrize(("action", "stop"), [("pause", "Hold"), ("resume", "None")])
def test_queue_is_paused_by_its_object(fluence: Fluence, kubectl: Program, action: str, stop: str) -> None:
    assert fluence("queue", action, "physics").code == 0
    (call,) = written(kubectl)
    assert call[:3] == ["patch", "queues.fluence.flux-framework.org", "physics"]
    assert json.loads(call[4].removeprefix("--patch=")) == {"spec": {"stop": stop}}


def test_refusal_of_the_api_server_ends_the_command(fluence: Fluence, kubectl: Program) -> None:
    kubectl.answers("annotate", err="Error from server (Forbidden): no\n", code=1)
    ended = fluence("queue", "hold", "job/train")
    assert (ended.code, ended.err) == (1, "Error from server (Forbidden): no\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["hold"], "hold what? kubectl fluence queue hold NAME"),
        (["move", "job/train"], "move what? kubectl fluence queue move NAME QUEUE"),
        (["list", "physics"], "list takes no name; kubectl fluence queue show physics"),
        (["hold", "a", "b"], "hold takes one name, not a and b"),
        (["hold", "job/a", "-A"], "hold acts in one namespace; name it with -n NAMESPACE"),
        (["hold", "cronjob/nightly"], "doesn't reach the Jobs that it has made"),
        (["move", "cronjobs.batch/nightly", "physics"], "doesn't reach the Jobs that it has made"),
        (["release", "cj/nightly"], "doesn't reach the Jobs that it has made"),
        (["show", "phisics"], 'no queue phisics; did you mean "physics"?'),
    ],
)
def test_wrong_command_says_what_to_write(fluence: Fluence, words: list[str], told: str) -> None:
    ended = fluence("queue", *words)
    assert ended.code in (1, 2)
    assert told in ended.err


def test_unknown_gang_is_told_with_what_to_write(fluence: Fluence, kubectl: Program) -> None:
    answers(kubectl, "gangs")
    ended = fluence("queue", "hold", "tran")
    assert ended.code == 1
    assert "name its object with its kind (job/tran)" in ended.err


def test_what_a_queue_uses_stands_before_its_line(fluence: Fluence, kubectl: Program) -> None:
    quota = {"used": {"cpu": "250"}, "borrowed": {"cpu": "50"}, "guaranteed": {"cpu": "200"}, "share": 0.125}
    answers(kubectl, "queues", queue("physics", **quota))
    answers(kubectl, "queue?", entry(1, "big"))
    said = "queue physics: used cpu=250; borrowed cpu=50; guaranteed cpu=200; limit -; share 0.125"
    assert fluence("queue", "show", "physics").out.splitlines()[0] == said
    assert said not in fluence("queue", "show", "physics", "-o", "json").out
    assert "0.125" in fluence("queue", "-o", "wide").out


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_queue_without_object_has_nothing_to_pause(fluence: Fluence, kubectl: Program, action: str) -> None:
    answers(kubectl, "queues", queue("default", has_object=False))
    ended = fluence("queue", action, "default")
    assert ended.code == 1
    assert "queue default exists without a Queue object, which would say that it is stopped" in ended.err
    assert written(kubectl) == []


@pytest.mark.parametrize("name", ["train", "job/train", "gang/train"])
@pytest.mark.parametrize(("state", "told"), [("bound", True), ("committed", True), ("waiting", False)])
def test_hold_of_running_work_says_that_it_goes_on(
    fluence: Fluence, kubectl: Program, name: str, state: str, told: bool
) -> None:
    answers(kubectl, "gangs", {"name": "train", "state": state, "convention": "job", "members": []})
    ended = fluence("queue", "hold", name)
    assert ended.code == 0
    assert len(written(kubectl)) == 1
    assert ("gang train has its places and goes on" in ended.err) is told
