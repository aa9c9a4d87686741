"""Read and write AdmissionReview v1 (k8s.io/api/admission/v1), the fields that the webhook uses.

Invariants: any bytes are either read as a review, or `BadReview` is raised. An answer always allows the object, because
this webhook never refuses one. The namespace of a review is a valid name of a namespace.
"""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from fluence_extender.model.syntax import is_dns_label
from fluence_extender.webhook.contract import AdmissionRequest, Json, Outcome

VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

POD = "Pod"

LARGEST_OBJECT = 2**20
"""The most bytes of JSON. Usual pods have a few thousand. The limit bounds the work on an object."""

WARNING_LENGTH = 400
"""The most characters of a warning. The API server shows ten such in full (k8s.io/apiserver, pkg/endpoints/filters)."""

LONGEST_UID = 64
"""The most characters of a uid; the API server's have 36."""

WARNINGS = 10
"""The most warnings of an answer. The API server shows 4096 characters in total."""


class BadReview(Exception):
    """The body isn't an AdmissionReview with a request; the text says what is wrong."""


class _Kind(Struct, frozen=True, gc=False):
    group: str = ""
    kind: str = ""


class _WireRequest(Struct, frozen=True, gc=False, rename="camel"):
    uid: str
    kind: _Kind = _Kind()
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    operation: str = ""
    dry_run: bool | None = None
    object: Raw = Raw(b"null")


class _Review(Struct, frozen=True, gc=False, rename="camel"):
    api_version: str
    kind: str
    request: _WireRequest


class _Response(Struct, omit_defaults=True, rename="camel"):
    uid: str
    allowed: bool | None = None
    patch_type: str = ""
    patch: str = ""
    warnings: list[str] = []


class _AnsweredReview(Struct, rename="camel"):
    api_version: str
    kind: str
    response: _Response


_decode_review = msgspec.json.Decoder(_Review).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_encoder = msgspec.json.Encoder()


class Review(Struct, frozen=True):
    """One request with its ``pod``, None if that can't be read (``unreadable`` says why)."""

    request: AdmissionRequest
    pod: Json | None
    unreadable: str = ""


def read_review(body: bytes) -> Review:
    """Return the request in an AdmissionReview. Raises `BadReview`."""
    try:
        review = _decode_review(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadReview(f"not an {KIND}: {error}") from None
    if (review.api_version, review.kind) != (VERSION, KIND):
        raise BadReview(f"an {KIND} of {VERSION} is expected, not {review.kind} of {review.api_version}")
    wire = review.request
    if not wire.uid:
        raise BadReview("the request has no uid, so it can't be answered")
    if len(wire.uid) > LONGEST_UID:
        raise BadReview(f"the request's uid has more than {LONGEST_UID} characters")
    if wire.namespace and not is_dns_label(wire.namespace):
        raise BadReview(f"{wire.namespace[:LONGEST_UID]!r} can't be the name of a namespace")
    request = AdmissionRequest(
        namespace=wire.namespace,
        name=wire.name,
        dry_run=bool(wire.dry_run),
        operation=wire.operation,
        uid=wire.uid,
    )
    if wire.sub_resource or wire.kind.group or wire.kind.kind not in ("", POD):
        target = "/".join(filter(None, (wire.kind.group, wire.kind.kind, wire.sub_resource)))
        return Review(request, None, f"the webhook handles pods, not {target}")
    if (size := len(wire.object)) > LARGEST_OBJECT:
        return Review(request, None, f"it has {size} bytes, and pods of up to {LARGEST_OBJECT} are prepared")
    if not wire.namespace:
        return Review(request, None, "the request names no namespace")
    try:
        return Review(request, _decode_object(wire.object))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Review(request, None, f"the object isn't a pod: {error}")


def encode_answer(uid: str, outcome: Outcome) -> bytes:
    """Return the AdmissionReview that allows the object, with the patch and the warnings of ``outcome``."""
    response = _Response(uid, True, warnings=_warnings(outcome.warnings))
    if outcome.patch:
        patch = _encoder.encode(outcome.patch)
        response.patch_type, response.patch = "JSONPatch", base64.b64encode(patch).decode()
    return _encoder.encode(_AnsweredReview(VERSION, KIND, response))


def _warnings(warnings: Sequence[str]) -> list[str]:
    """Return the warnings in a form for HTTP headers (RFC 9110; RFC 7234, 5.5)."""
    return [_for_header(one) for one in warnings[:WARNINGS]]


def _for_header(warning: str) -> str:
    begin = warning if len(warning) <= WARNING_LENGTH else f"{warning[: WARNING_LENGTH - 1]}…"
    return "".join(" " if unicodedata.category(one).startswith("C") else one for one in begin)
