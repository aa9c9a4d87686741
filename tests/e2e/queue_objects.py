"""Queues and Reservations as tests write them, and their definitions in the cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

from fluence_extender.model.names import DOMAIN, QUEUE_VERSION
from tests.e2e.harness import Manifest, documents, wait_for
from tests.e2e.installation import BASE
from tests.e2e.operators import DEFINITIONS
from tests.localcluster import Api

PATHS = {kind: f"/apis/{DOMAIN}/{QUEUE_VERSION}/{kind.lower()}s" for kind in ("Queue", "Reservation")}


def queue_object(kind: str, name: str, **spec: Any) -> Manifest:
    """A Queue or a Reservation."""
    return {
        "apiVersion": f"{DOMAIN}/{QUEUE_VERSION}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def define(api: Api) -> None:
    """Install both kinds, and wait until they are served."""
    for document in documents(BASE / "queues.yaml"):
        api.apply(document)
    for path in PATHS.values():
        wait_for(partial(api.get, path), what=f"{path} to be served")


def undefine(api: Api) -> None:
    """Remove both kinds and all their objects."""
    for document in documents(BASE / "queues.yaml"):
        api.delete(f"{DEFINITIONS}/{document['metadata']['name']}")
