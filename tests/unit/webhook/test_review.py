"""A body is read as an AdmissionReview or refused, and an answer always allows."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fluence_extender.webhook.contract import Operation, Outcome
from fluence_extender.webhook.review import BadReview, encode_answer, read_review
from tests.unit.webhook.pods import QPU, container, grouped, warned
from tests.unit.webhook.reviews import UID, written


def test_request_is_read() -> None:
    review = read_review(written({"metadata": {"name": "p"}, "spec": {}}, dryRun=True, name="p"))
    assert review.request.namespace == "default"
    assert (review.request.name, review.request.uid, review.request.dry_run) == ("p", UID, True)
    assert review.request.operation == "CREATE"
    assert review.pod == {"metadata": {"name": "p"}, "spec": {}}


def test_optional_fields_may_be_missing() -> None:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": UID}}
    review = read_review(json.dumps(body).encode())
    assert (review.request.namespace, review.request.name, review.request.dry_run) == ("", "", False)
    assert review.pod is None
    assert review.unreadable


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "not an AdmissionReview"),
        (b"nonsense", "not an AdmissionReview"),
        (b"[]", "not an AdmissionReview"),
        (b"null", "not an AdmissionReview"),
        (b"{}", "not an AdmissionReview"),
        (b"\xff\xfe{}", "not an AdmissionReview"),
        (b"[" * 100_000, "not an AdmissionReview"),
        (written({}, version="admission.k8s.io/v1beta1"), "v1beta1"),
        (written({}, of="Pod"), "is expected, not Pod"),
        (written({}, uid=""), "no uid"),
        (written({}, uid=7), "not an AdmissionReview"),
        (written({}, namespace=["a"]), "not an AdmissionReview"),
        (written({}, namespace="../kube-system"), "can't be the name of a namespace"),
        (written({}, namespace="Lab"), "can't be the name of a namespace"),
        (written({}, namespace="x" * 64), "can't be the name of a namespace"),
        (written({}, uid="x" * 65), "more than 64 characters"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": null}', "not an"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {}}', "not an"),
    ],
)
def test_message_says_why_a_body_is_no_review(body: bytes, text: str) -> None:
    with pytest.raises(BadReview, match=text):
        read_review(body)


@pytest.mark.parametrize("thing", [None, [], "pod", 7, True])
def test_object_that_is_no_pod_is_reported(thing: Any) -> None:
    review = read_review(written(thing))
    assert review.pod is None
    assert "isn't a pod" in review.unreadable
    assert review.request.uid == UID


def test_deeply_nested_object_is_reported() -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    body = written({"here": 1}).replace(b'{"here": 1}', deep)
    try:
        review = read_review(body)
    except BadReview:
        return
    assert review.pod is None


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}, "apps/Deployment"),
        ({"kind": {"group": "", "version": "v1", "kind": "Service"}}, "Service"),
        ({"subResource": "ephemeralcontainers"}, "Pod/ephemeralcontainers"),
    ],
)
def test_other_kinds_are_reported(fields: dict[str, Any], what: str) -> None:
    review = read_review(written({"spec": {}}, **fields))
    assert review.pod is None
    assert review.unreadable.endswith(what)


def answered(outcome: Outcome) -> dict[str, Any]:
    document = json.loads(encode_answer(UID, outcome))
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert document["response"]["uid"] == UID
    assert document["response"]["allowed"] is True
    return dict(document["response"])


def test_answer_without_a_patch_only_allows() -> None:
    assert answered(Outcome()) == {"uid": UID, "allowed": True}


def test_patch_is_a_json_patch() -> None:
    operations = (Operation("add", "/spec/x", [{"name": "ä"}]), Operation("remove", "/spec/y"))
    response = answered(Outcome(operations))
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/spec/x", "value": [{"name": "ä"}]},
        {"op": "remove", "path": "/spec/y"},
    ]


def test_null_is_a_value_of_a_patch() -> None:
    response = answered(Outcome((Operation("add", "/spec/priority", None),)))
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/spec/priority", "value": None}
    ]


def test_warnings_are_in_the_answer() -> None:
    assert answered(Outcome(warnings=("one", "two")))["warnings"] == ["one", "two"]


def test_advice_fits_into_a_warning_with_the_longest_names() -> None:
    (warning,) = warned(grouped(container(asks={QPU: "1"}), group="g" * 63, mode="shared"))
    assert answered(Outcome(warnings=(warning,)))["warnings"] == [warning]
    both = grouped(group="g" * 63)
    both["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-name": "h" * 63}
    (warning,) = warned(both)
    assert answered(Outcome(warnings=(warning,)))["warnings"] == [warning]


def test_warnings_are_made_fit_for_a_header() -> None:
    (shown,) = answered(Outcome(warnings=("a\r\nSet-Cookie: b\x00\tc" + "x" * 500,)))["warnings"]
    assert shown.startswith("a  Set-Cookie: b  cxxx")
    assert len(shown) == 400
    assert shown.endswith("…")
    assert len(answered(Outcome(warnings=tuple(map(str, range(50)))))["warnings"]) == 10
