"""One consistent look at our own pods, for a replica that begins to lead.

Its watch may be behind what the leader before it has written. A list without resourceVersion is a quorum read
(Kubernetes API concepts, "resource versions"): all that was accepted before it is in it. Of the thousands of pods in it
only those are decoded that aren't known in that very version already, so it costs little more than the transfer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from fluence_extender.cluster import wire
from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.decode import decode_pod
from fluence_extender.cluster.port import Look
from fluence_extender.model.names import SCHEDULER_NAME
from fluence_extender.model.pod import Pod

PAGE = 1000
LIMIT = 30.0
BREATHE = 256


class _Metadata(msgspec.Struct, gc=False):
    uid: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata


_page = msgspec.json.Decoder(wire.Page).decode
_head = msgspec.json.Decoder(_Object).decode


async def look_at_ours(connection: Connection, known: Mapping[str, str]) -> Look:
    """All pods of our scheduler; ``known`` are the resourceVersions of those we have, by uid. Raises `ClusterError`.

    Pages after the first are of the first one's version, which is the look's.
    """
    query: dict[str, str | int] = {"limit": PAGE, "fieldSelector": f"spec.schedulerName={SCHEDULER_NAME}"}
    uids: set[str] = set()
    changed: list[Pod] = []
    seen = 0
    while True:
        request = Request("GET", "/api/v1/pods", "list our pods", query)
        page = _page(await connection.call(request, LIMIT))
        for raw in page.items or ():
            head = _head(raw).metadata
            uids.add(head.uid)
            if known.get(head.uid) != head.version:
                changed.append(decode_pod(bytes(raw)))
            seen += 1
            if seen % BREATHE == 0:
                await asyncio.sleep(0)
        if not page.metadata.next_page:
            return Look(page.metadata.resource_version, frozenset(uids), tuple(changed))
        query["continue"] = page.metadata.next_page
