"""Whether Queues and Reservations can be made, and which of those that exist aren't in force as they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fluence_extender.apps.kubectl.doctor.examination import OK, UNKNOWN, WARNING, Examination, Finding
from fluence_extender.apps.kubectl.errors import KubectlFailed
from fluence_extender.model.names import DOMAIN

KINDS = f"queues.{DOMAIN},reservations.{DOMAIN}"


def queues(examination: Examination) -> Iterator[Finding]:
    """Check that both kinds are served, and that all objects are in force as they are written."""
    try:
        items = json.loads(examination.kubectl("get", KINDS, "-o", "json"))["items"]
    except KubectlFailed as error:
        yield _unseen(str(error))
        return
    except (ValueError, KeyError):
        yield Finding("queues", UNKNOWN, "kubectl gave no list")
        return
    reported = 0
    for one in items:
        conditions = one.get("status", {}).get("conditions") or ()
        why = next((each.get("message", "") for each in conditions if each.get("status") == "False"), "")
        if why:
            reported += 1
            name = f"{one.get('kind')} {one.get('metadata', {}).get('name')}"
            yield Finding("queues", WARNING, f"{name}: {why}", "docs/queues.md says what each field means")
    if not reported:
        text = f"{len(items)} Queues and Reservations are in force" if items else "all work is in one queue"
        yield Finding("queues", OK, text)


def _unseen(message: str) -> Finding:
    if "have a resource type" in message:
        text = "there are no Queues and Reservations, so all work is in one queue"
        return Finding("queues", WARNING, text, "kubectl apply -k deploy adds both kinds")
    return Finding("queues", UNKNOWN, "you may not list Queues" if "orbidden" in message else message)
