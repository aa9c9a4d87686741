"""Reviews as the API server writes them."""

from __future__ import annotations

import json
from typing import Any

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def written(
    thing: object, *, version: str = "admission.k8s.io/v1", of: str = "AdmissionReview", **fields: Any
) -> bytes:
    """Return a review (or a document ``of`` another kind) of ``thing``; ``fields`` are set in its request."""
    request = {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters"]},
        "object": thing,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **fields,
    }
    return json.dumps({"kind": of, "apiVersion": version, "request": request}).encode()
