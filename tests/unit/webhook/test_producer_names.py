"""A user's group may have the name of another group's producer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog

from fluence_extender.cluster.port import Changed, Deleted, Listed
from fluence_extender.kinds.job import Job
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.model.pod_keys import UNSIZED
from fluence_extender.webhook.context import ContextTracker, ProducerNames
from fluence_extender.webhook.contract import Context
from fluence_extender.webhook.mutate import mutate
from tests.unit.webhook.pods import ALL, CONTEXT, QPU, REQUEST, container, grouped
from tests.unit.webhook.stored_objects import StoredObjects

TAKEN = frozenset((("lab", "g-producer"),))
ASKING = container(asks={QPU: "1"})


def member(uid: str, group: str = "g-producer", produces: bool = False, **fields: Any) -> Pod:
    return Pod(
        "lab", uid, uid, {GROUP_LABEL: group}, {ROLE_ANNOTATION: PRODUCER} if produces else {}, **fields
    )


def warnings(body: dict[str, Any], context: Context) -> tuple[str, ...]:
    outcome = mutate(body, REQUEST, ALL, context)
    assert outcome.patch
    return tuple(one for one in outcome.warnings if one != UNSIZED)


@pytest.mark.parametrize(
    ("body", "other"),
    [
        (grouped(ASKING, group="g-producer"), "the producer of shared group 'g'"),
        (grouped(group="g-producer", size="2"), "the producer of shared group 'g'"),
        (grouped(ASKING, group="g-producer", mode="shared", index="1"), "the producer of shared group 'g'"),
    ],
)
def test_pod_of_a_group_with_a_producer_gets_a_warning(body: dict[str, Any], other: str) -> None:
    (warning,) = warnings(body, replace(CONTEXT, producer_groups=TAKEN))
    assert f"group 'g-producer' is also the group of {other}" in warning
    assert warnings(body, replace(CONTEXT, producer_like_groups=TAKEN)) == ()
    assert warnings(body, replace(CONTEXT, producer_groups=frozenset((("elsewhere", "g-producer"),)))) == ()


def test_producer_of_a_group_with_other_pods_gets_a_warning() -> None:
    body = grouped(ASKING, mode="shared", index="0")
    (warning,) = warnings(body, replace(CONTEXT, producer_like_groups=TAKEN))
    assert "group 'g-producer' is also the group of pods of another group" in warning
    assert warnings(body, replace(CONTEXT, producer_groups=TAKEN)) == ()
    assert (
        warnings(grouped(ASKING, mode="shared", index="1"), replace(CONTEXT, producer_like_groups=TAKEN))
        == ()
    )


def test_groups_are_known_as_long_as_they_have_a_pod() -> None:
    names = ProducerNames()
    assert names.observe(Changed(member("a")))
    assert not names.observe(Changed(member("b")))
    assert (names.of_others, names.of_producers) == (TAKEN, frozenset())
    assert names.observe(Changed(member("p", produces=True)))
    assert (names.of_others, names.of_producers) == (TAKEN, TAKEN)
    assert not names.observe(Deleted(member("a")))
    assert names.observe(Changed(member("b", phase="Succeeded")))
    assert names.of_others == frozenset()
    assert names.observe(Listed(Pod, (member("c"),)))
    assert (names.of_others, names.of_producers) == (TAKEN, frozenset())
    assert names.observe(Changed(member("c", group="other")))
    assert names.of_others == frozenset()


@pytest.mark.parametrize(
    "pod", [member("a", "g"), member("a", "producer"), member("a", scheduler="default-scheduler")]
)
def test_other_groups_have_no_producers_name(pod: Pod) -> None:
    names = ProducerNames()
    assert not names.observe(Changed(pod))
    assert not names.observe(Listed(Pod, (pod,)))
    assert not names.observe(Deleted(pod))
    assert not names.observe(Listed(Job, ()))


def test_clash_is_logged_once() -> None:
    names = ProducerNames()
    with structlog.testing.capture_logs() as lines:
        for one in (member("a"), member("p", produces=True), member("b"), member("q", produces=True)):
            names.observe(Changed(one))
    assert [line["group"] for line in lines] == ["lab/g-producer"]


def test_context_has_both_kinds_of_groups() -> None:
    surroundings = ContextTracker(StoredObjects(), Context())
    surroundings.observe(Listed(Pod, (member("a"), member("p", "h-producer", produces=True))))
    assert surroundings.context.producer_like_groups == TAKEN
    assert surroundings.context.producer_groups == {("lab", "h-producer")}
