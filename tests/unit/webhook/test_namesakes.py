"""A group of the users' with the name that the producer of another has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog

from fluence_extender.cluster.port import Changed, Deleted, Kind, Listed
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import Context
from fluence_extender.webhook.mutate import mutate
from fluence_extender.webhook.namesakes import Namesakes
from fluence_extender.webhook.surroundings import Surroundings
from tests.unit.webhook.pods import ALL, CONTEXT, QPU, REQUEST, container, grouped
from tests.unit.webhook.stored_objects import StoredObjects

TAKEN = frozenset((("lab", "g-producer"),))
ASKING = container(asks={QPU: "1"})


def member(uid: str, group: str = "g-producer", produces: bool = False, **fields: Any) -> Pod:
    return Pod(
        "lab", uid, uid, {GROUP_LABEL: group}, {ROLE_ANNOTATION: PRODUCER} if produces else {}, **fields
    )


def told(body: dict[str, Any], context: Context) -> tuple[str, ...]:
    outcome = mutate(body, REQUEST, ALL, context)
    assert outcome.patch
    return outcome.warnings


@pytest.mark.parametrize(
    ("body", "other"),
    [
        (grouped(ASKING, group="g-producer"), "the producer of shared group 'g'"),
        (grouped(group="g-producer", size="2"), "the producer of shared group 'g'"),
        (grouped(ASKING, group="g-producer", mode="shared", index="1"), "the producer of shared group 'g'"),
    ],
)
def test_pod_of_a_group_that_a_producer_is_in_is_told(body: dict[str, Any], other: str) -> None:
    (said,) = told(body, replace(CONTEXT, producers=TAKEN))
    assert f"group 'g-producer' is also that of {other}" in said
    assert told(body, replace(CONTEXT, namesakes=TAKEN)) == ()
    assert told(body, replace(CONTEXT, producers=frozenset((("elsewhere", "g-producer"),)))) == ()


def test_producer_whose_group_others_are_in_is_told() -> None:
    body = grouped(ASKING, mode="shared", index="0")
    (said,) = told(body, replace(CONTEXT, namesakes=TAKEN))
    assert "group 'g-producer' is also that of pods of another group" in said
    assert told(body, replace(CONTEXT, producers=TAKEN)) == ()
    assert told(grouped(ASKING, mode="shared", index="1"), replace(CONTEXT, namesakes=TAKEN)) == ()


def test_groups_are_known_as_long_as_a_pod_of_theirs_is_there() -> None:
    names = Namesakes()
    assert names.take(Changed(Kind.POD, member("a")))
    assert not names.take(Changed(Kind.POD, member("b")))
    assert (names.of_others, names.of_producers) == (TAKEN, frozenset())
    assert names.take(Changed(Kind.POD, member("p", produces=True)))
    assert (names.of_others, names.of_producers) == (TAKEN, TAKEN)
    assert not names.take(Deleted(Kind.POD, member("a")))
    assert names.take(Changed(Kind.POD, member("b", phase="Succeeded")))
    assert names.of_others == frozenset()
    assert names.take(Listed(Kind.POD, (member("c"),)))
    assert (names.of_others, names.of_producers) == (TAKEN, frozenset())
    assert names.take(Changed(Kind.POD, member("c", group="other")))
    assert names.of_others == frozenset()


@pytest.mark.parametrize(
    "pod", [member("a", "g"), member("a", "producer"), member("a", scheduler="default-scheduler")]
)
def test_other_pods_go_by_no_such_name(pod: Pod) -> None:
    names = Namesakes()
    assert not names.take(Changed(Kind.POD, pod))
    assert not names.take(Listed(Kind.POD, (pod,)))
    assert not names.take(Deleted(Kind.POD, pod))
    assert not names.take(Listed(Kind.JOB, ()))


def test_that_both_are_there_is_in_the_log_once() -> None:
    names = Namesakes()
    with structlog.testing.capture_logs() as lines:
        for one in (member("a"), member("p", produces=True), member("b"), member("q", produces=True)):
            names.take(Changed(Kind.POD, one))
    assert [line["group"] for line in lines] == ["lab/g-producer"]


def test_handlers_learn_of_them() -> None:
    surroundings = Surroundings(StoredObjects(), Context())
    surroundings.take(Listed(Kind.POD, (member("a"), member("p", "h-producer", produces=True))))
    assert surroundings.context.namesakes == TAKEN
    assert surroundings.context.producers == {("lab", "h-producer")}
