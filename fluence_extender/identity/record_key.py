"""The key with which all replicas seal the service's records on users' objects. It is kept in a Secret.

The Secret holds ``key``, which seals records. It may also hold ``former``: records that this older key sealed are
believed as well. Each is 32 bytes, written in hexadecimal digits. A replica that finds no key makes one. A replica
reads the Secret once, when it starts, and keeps the keys in memory. So a change of the Secret has no effect on a
running process.

Invariant: a key is written only where there is none. If several replicas make one, all use the first that was written.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Mapping
from contextlib import suppress

import structlog

from fluence_extender.cluster.errors import ClusterError, Conflict
from fluence_extender.cluster.port import Json, Objects
from fluence_extender.room.records import KEY_BYTES, Seal

log = structlog.get_logger(__name__)

SECRET = "fluence-record-key"
KEY = "key"
FORMER = "former"

PAUSE = 1.0
"""Seconds until the Secret is asked for again while the API server doesn't answer."""

REFUSED = range(400, 500)
"""The HTTP statuses after which it doesn't help to ask again, except for those below."""

LATER = (401, 408, 409, 429)


async def shared_seal(objects: Objects, namespace: str) -> Seal:
    """Return the seal of all replicas, after making its key if there is none.

    If the Secret may not be read or written, or its content isn't a key, return a seal of this process alone: its
    records count for nothing after a restart.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets/{SECRET}"
    while True:
        try:
            with suppress(Conflict):
                return Seal(await _keys(objects, path, namespace))
        except ClusterError as error:
            if error.status in REFUSED and error.status not in LATER:
                return _alone(namespace, str(error))
            log.warning("the key of records isn't known yet; asking again", secret=SECRET, error=str(error))
        except ValueError as error:
            return _alone(namespace, f"its content isn't a key: {error}")
        await asyncio.sleep(PAUSE)


async def _keys(objects: Objects, path: str, namespace: str) -> tuple[bytes, ...]:
    """Return the keys, the present one first. Raises `ClusterError`, and `ValueError` if one is unreadable."""
    stored = await objects.read(path)
    data = (stored or {}).get("data") or {}
    if data.get(KEY):
        return tuple(_key(data, name) for name in (KEY, FORMER) if data.get(name))
    key = secrets.token_bytes(KEY_BYTES)
    filled = {**data, KEY: base64.b64encode(key.hex().encode()).decode()}
    if stored is None:
        metadata = {"name": SECRET, "namespace": namespace}
        new: Json = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
        await objects.create(path, {**new, "data": filled})
    else:
        await objects.replace(path, {**stored, "data": filled})
    log.info("made a key for records", secret=SECRET)
    former = (_key(data, FORMER),) if data.get(FORMER) else ()
    return key, *former


def _key(data: Mapping[str, str], name: str) -> bytes:
    text = base64.b64decode(data[name], validate=True).decode("ascii").strip()
    key = bytes.fromhex(text)
    if len(key) != KEY_BYTES:
        raise ValueError(f"{name} has {len(key)} bytes instead of {KEY_BYTES}")
    return key


def _alone(namespace: str, why: str) -> Seal:
    log.error(
        "records of this process count for nothing once it has ended, because it has no shared key",
        secret=f"{namespace}/{SECRET}",
        problem=why,
    )
    return Seal.of_this_process()
