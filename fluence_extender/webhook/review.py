"""AdmissionReview v1 on the wire (k8s.io/api/admission/v1), of which only what is used is decoded.

Invariant: whatever the bytes, they are a review or `BadReview` is raised; an answer always allows, because refusing is
nothing that this webhook is for.
"""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from fluence_extender.webhook.contract import Json, Outcome, Request

VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

WARNING_LENGTH = 400
"""Characters of one warning. The API server shows ten of them whole (k8s.io/apiserver, pkg/endpoints/filters)."""

WARNINGS = 10
"""Warnings of one answer; the API server shows 4096 characters in all."""


class BadReview(Exception):
    """The body isn't an AdmissionReview with a request; the text says what is wrong with it."""


class _Kind(Struct, frozen=True, gc=False):
    group: str = ""
    kind: str = ""


class _Request(Struct, frozen=True, gc=False, rename="camel"):
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
    request: _Request


class _Response(Struct, omit_defaults=True, rename="camel"):
    uid: str
    allowed: bool | None = None
    patch_type: str = ""
    patch: str = ""
    warnings: list[str] = []


class _Answer(Struct, rename="camel"):
    api_version: str
    kind: str
    response: _Response


_decode_review = msgspec.json.Decoder(_Review).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_encoder = msgspec.json.Encoder()


class Review(Struct, frozen=True):
    """One request: ``pod`` is None where the object can't be read as one (``unreadable`` says why)."""

    request: Request
    pod: Json | None
    unreadable: str = ""


def read_review(body: bytes) -> Review:
    """The request in an AdmissionReview. Raises `BadReview`."""
    try:
        review = _decode_review(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadReview(f"not an {KIND}: {error}") from None
    if (review.api_version, review.kind) != (VERSION, KIND):
        said = f"{review.kind} of {review.api_version}"
        raise BadReview(f"an {KIND} of {VERSION} is expected, not {said}")
    asked = review.request
    if not asked.uid:
        raise BadReview("the request has no uid, so it can't be answered")
    request = Request(
        namespace=asked.namespace,
        name=asked.name,
        dry_run=bool(asked.dry_run),
        operation=asked.operation,
        uid=asked.uid,
    )
    if asked.kind.kind not in ("", "Pod") or asked.kind.group or asked.sub_resource:
        what = "/".join(filter(None, (asked.kind.group, asked.kind.kind, asked.sub_resource)))
        return Review(request, None, f"only pods are understood here, not {what}")
    try:
        pod = _decode_object(asked.object)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Review(request, None, f"the object isn't a pod: {error}")
    return Review(request, pod)


def answer(uid: str, outcome: Outcome) -> bytes:
    """The AdmissionReview that allows, with the patch and the warnings of ``outcome``."""
    response = _Response(uid, True, warnings=_warnings(outcome.warnings))
    if outcome.patch:
        patch = _encoder.encode(outcome.patch)
        response.patch_type, response.patch = "JSONPatch", base64.b64encode(patch).decode()
    return _encoder.encode(_Answer(VERSION, KIND, response))


def _warnings(warnings: Sequence[str]) -> list[str]:
    """Warnings as an HTTP header can carry them (RFC 9110; RFC 7234, 5.5)."""
    return [_plain(one) for one in warnings[:WARNINGS]]


def _plain(warning: str) -> str:
    shown = "".join(" " if unicodedata.category(one).startswith("C") else one for one in warning)
    return shown if len(shown) <= WARNING_LENGTH else f"{shown[: WARNING_LENGTH - 1]}…"
