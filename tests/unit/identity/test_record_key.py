"""The key of our records is made once, shared by all replicas, and replaced without a loss."""

from __future__ import annotations

import asyncio
import base64

import pytest

from fluence_extender.cluster.errors import Denied, NoAnswer
from fluence_extender.embeddedcluster.kept_objects import KeptObjects
from fluence_extender.identity import record_key
from fluence_extender.identity.record_key import FORMER, KEY, SECRET, shared_seal
from fluence_extender.model.names import PLACED_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.room.records import KEY_BYTES, Seal
from tests.unit.webhook.stored_objects import StoredObjects

PATH = f"/api/v1/namespaces/fluence-system/secrets/{SECRET}"
EMPTY = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "type": "Opaque"}
POD = Pod("lab", "p", "u")


def seal(objects: StoredObjects | KeptObjects) -> Seal:
    return asyncio.run(shared_seal(objects, "fluence-system"))


def believes(reader: Seal, writer: Seal) -> bool:
    pod = Pod("lab", "p", "u", annotations={PLACED_ANNOTATION: writer.on_pod(POD, "1 pod/p u")})
    return PLACED_ANNOTATION in reader.believed(pod).annotations


def encoded(key: bytes) -> str:
    return base64.b64encode(key.hex().encode()).decode()


@pytest.mark.parametrize("applied", [True, False])
def test_first_replica_makes_the_key_and_all_others_read_it(applied: bool) -> None:
    objects = StoredObjects()
    if applied:
        objects.put(PATH, EMPTY)
    first = seal(objects)
    assert len(objects.writes()) == 1
    assert all(believes(seal(objects), first) and believes(first, seal(objects)) for _ in range(3))
    assert len(objects.writes()) == 1


@pytest.mark.parametrize("applied", [True, False])
def test_replicas_that_make_a_key_at_the_same_time_use_the_same(applied: bool) -> None:
    objects, other = StoredObjects(), base64.b64encode(b"ab" * KEY_BYTES).decode()
    if applied:
        objects.put(PATH, EMPTY)

    def another_is_first(verb: str, path: str) -> None:
        if verb != "read" and "data" not in objects.objects.get(PATH, {}):
            objects.put(PATH, {**EMPTY, "data": {KEY: other}})

    objects.before = another_is_first
    assert believes(seal(objects), Seal((bytes.fromhex("ab" * KEY_BYTES),)))
    assert objects.objects[PATH]["data"][KEY] == other


def test_key_is_rotated_without_a_record_that_isnt_believed() -> None:
    objects = StoredObjects()
    before = seal(objects)
    data = objects.objects[PATH]["data"]
    objects.put(PATH, {**EMPTY, "data": {FORMER: data[KEY]}})
    after = seal(objects)
    assert believes(after, before)
    assert not believes(before, after)
    objects.put(PATH, {**EMPTY, "data": {KEY: objects.objects[PATH]["data"][KEY]}})
    assert not believes(seal(objects), before)
    assert believes(seal(objects), after)


def test_deleted_secret_makes_a_new_key_and_old_records_count_for_nothing() -> None:
    objects = StoredObjects()
    before = seal(objects)
    del objects.objects[PATH]
    after = seal(objects)
    assert believes(before, before)
    assert not believes(after, before)


@pytest.mark.parametrize("data", ["AAAA", encoded(b"short"), "\u00e9", encoded(b"x" * 33)])
def test_content_that_is_no_key_is_left_alone_and_serves_nobody(data: str) -> None:
    objects = StoredObjects()
    objects.put(PATH, {**EMPTY, "data": {KEY: data}})
    first, second = seal(objects), seal(objects)
    assert not believes(first, second)
    assert not objects.writes()


def test_replica_without_the_right_keeps_a_key_of_its_own() -> None:
    objects = StoredObjects()

    def denied(verb: str, path: str) -> None:
        raise Denied("no", 403)

    objects.before = denied
    assert not believes(seal(objects), seal(objects))


def test_key_is_waited_for_while_the_api_server_doesnt_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_key, "PAUSE", 0.0)
    objects, failures = StoredObjects(), [NoAnswer("cut off"), Denied("not yet", 401)]

    def fails(verb: str, path: str) -> None:
        if failures:
            raise failures.pop()

    objects.before = fails
    assert believes(seal(objects), seal(objects))


def test_embedded_cluster_keeps_the_key_too() -> None:
    objects = KeptObjects()
    assert believes(seal(objects), seal(objects))
