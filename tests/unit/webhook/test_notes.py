"""What the webhook warns of stands on the pod, for users whose pods a controller creates."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.model.coordination import COORDINATION_ANNOTATION, OBSERVE_LABEL, SHARED
from fluence_extender.model.names import (
    COSCHEDULING_GROUP,
    DOMAIN,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    LEFT_AS_IT_IS,
    LONGEST_WARNING,
    WARNING_ANNOTATION,
)
from fluence_extender.webhook.mutate import mutate
from fluence_extender.webhook.notes import with_note
from fluence_extender.webhook.validity import MOST_ANNOTATIONS, MOST_CONTAINERS
from tests.unit.webhook.pods import ALL, CONTEXT, QPU, REQUEST, applied, container, pod

Json = dict[str, Any]
CLASH = {GROUP_LABEL: "one", COSCHEDULING_GROUP: "two"}
ASKING = container(asks={QPU: "1"})


def noted(body: Json) -> Json:
    """Return the pod after admission, with the note about its warnings."""
    return applied(body, with_note(body, mutate(body, REQUEST, ALL, CONTEXT)))


def note(body: Json) -> str:
    """Return what stands in the pod's annotation."""
    return str((body["metadata"].get("annotations") or {}).get(WARNING_ANNOTATION, ""))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (pod(ASKING, labels=CLASH), "names group 'one'"),
        (
            pod(ASKING, container("fluence-stage"), labels={GROUP_LABEL: "one"}),
            "'fluence-stage' exists twice",
        ),
        (
            pod(container(), labels={GROUP_LABEL: "one"}, annotations={GROUP_SIZE_ANNOTATION: "x"}),
            "whole number",
        ),
    ],
    ids=["two groups", "a container's name", "a size"],
)
def test_pod_that_is_left_as_it_is_says_why_and_is_otherwise_unchanged(body: Json, told: str) -> None:
    if told.startswith("'"):
        body["metadata"].setdefault("annotations", {})[COORDINATION_ANNOTATION] = SHARED
    after = noted(body)
    assert note(after).startswith(LEFT_AS_IT_IS)
    assert told in note(after)
    assert after["spec"] == body["spec"]
    assert noted(after) == after


def test_warning_replaces_what_a_user_wrote_and_has_a_length() -> None:
    labels = {GROUP_LABEL: "one", COSCHEDULING_GROUP: "t" * 1000}
    body = pod(ASKING, labels=labels, annotations={WARNING_ANNOTATION: "all is well"})
    assert note(noted(body)).startswith(LEFT_AS_IT_IS)
    assert len(note(noted(body))) == LONGEST_WARNING


def test_pod_without_a_warning_has_no_note() -> None:
    body = pod(ASKING)
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert outcome.warnings == ()
    assert with_note(body, outcome) is outcome


def test_what_the_service_finds_out_by_itself_is_not_written() -> None:
    body = pod(container(), labels={OBSERVE_LABEL: "true"}, annotations={f"{DOMAIN}/group-sise": "3"})
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert len(outcome.warnings) == 2
    assert with_note(body, outcome) is outcome


@pytest.mark.parametrize(
    "body",
    [
        pod(*(container(f"c{number}") for number in range(MOST_CONTAINERS + 1))),
        pod(container(), labels=CLASH, annotations={"example.com/full": "x" * (MOST_ANNOTATIONS - 20)}),
    ],
    ids=["too large", "full annotations"],
)
def test_pod_that_can_not_have_the_note_is_left_without_it(body: Json) -> None:
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert outcome.warnings
    assert with_note(body, outcome) is outcome
