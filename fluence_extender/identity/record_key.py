"""The key by which all replicas know the service's own records on users' objects, in a Secret.

The Secret holds ``key``, by which records are sealed, and may hold ``former``, by which records are believed that were
sealed before. Each is the text of 32 bytes in hexadecimal digits. The replica that finds no key makes one. It is read
once, when a replica starts, and held in memory. So a Secret that is changed or deleted changes nothing for a process
that runs.

Invariant: a key is only written where there is none, and of several replicas that make one all use the first.
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
from fluence_extender.model.seal import KEY_BYTES, Seal

log = structlog.get_logger(__name__)

SECRET = "fluence-record-key"
KEY = "key"
FORMER = "former"

PAUSE = 1.0
"""Seconds until the Secret is asked for again while the API server doesn't answer."""

REFUSED = range(400, 500)
"""The HTTP statuses of answers that asking again doesn't change, but for those below."""

LATER = (401, 408, 409, 429)


async def shared_seal(objects: Objects, namespace: str) -> Seal:
    """Return the seal of all replicas, after making its key if there is none.

    Where the Secret may not be read or written, or its content is no key, return a seal of this process alone: after a
    restart its records count for nothing.
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
            return _alone(namespace, f"its content is no key: {error}")
        await asyncio.sleep(PAUSE)


async def _keys(objects: Objects, path: str, namespace: str) -> tuple[bytes, ...]:
    """Return the keys, the present one first. Raises `ClusterError`, and `ValueError` if one is unreadable."""
    stored = await objects.read(path)
    data = (stored or {}).get("data") or {}
    if data.get(KEY):
        return tuple(_key(data, name) for name in (KEY, FORMER) if data.get(name))
    made = secrets.token_bytes(KEY_BYTES)
    filled = {**data, KEY: base64.b64encode(made.hex().encode()).decode()}
    if stored is None:
        metadata = {"name": SECRET, "namespace": namespace}
        new: Json = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
        await objects.create(path, {**new, "data": filled})
    else:
        await objects.replace(path, {**stored, "data": filled})
    log.info("a key of records is made", secret=SECRET)
    former = (_key(data, FORMER),) if data.get(FORMER) else ()
    return made, *former


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
