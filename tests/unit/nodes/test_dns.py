"""The rig's DNS server: what it answers, and to what it doesn't."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.localcluster import Api, ApiError
from tests.nodes.dns import answer, resolve

A, AAAA = 1, 28
OBJECTS: Mapping[str, Any] = {
    "/api/v1/namespaces/users/services/web": {"spec": {"clusterIP": "10.0.0.7"}},
    "/api/v1/namespaces/users/services/ranks": {"spec": {"clusterIP": "None"}},
    "/apis/discovery.k8s.io/v1/namespaces/users/endpointslices": {
        "items": [
            {
                "endpoints": [
                    {"addresses": ["10.78.1.2"], "hostname": "rank-0", "conditions": {"ready": True}},
                    {"addresses": ["10.78.2.2"], "hostname": "rank-1", "conditions": {"ready": True}},
                    {"addresses": ["10.78.2.3"], "hostname": "rank-2", "conditions": {"ready": False}},
                ]
            }
        ]
    },
}


class Recorded:
    """An API server that has `OBJECTS`."""

    def get(self, path: str, **_: str) -> Any:
        if path not in OBJECTS:
            raise ApiError("GET", path, 404, "NotFound", "")
        return OBJECTS[path]


def found(name: str) -> list[str] | None:
    return resolve(cast("Api", Recorded()), name.split("."))


def query(name: str, kind: int = A) -> bytes:
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def test_service_has_its_address() -> None:
    assert found("web.users.svc.cluster.local") == ["10.0.0.7"]


def test_headless_service_has_those_of_its_ready_pods() -> None:
    assert found("ranks.users.svc.cluster.local") == ["10.78.1.2", "10.78.2.2"]


def test_pod_of_a_headless_service_has_a_name() -> None:
    assert found("rank-1.ranks.users.svc.cluster.local") == ["10.78.2.2"]
    assert found("rank-9.ranks.users.svc.cluster.local") is None


@pytest.mark.parametrize(
    "name", ["web.others.svc.cluster.local", "web.users", "example.com", "a.web.users.svc.cluster.local"]
)
def test_other_names_are_unknown(name: str) -> None:
    assert found(name) is None


def test_answer_has_each_address_of_the_name_that_was_asked_for() -> None:
    asked = query("web.users")
    told = answer(asked, lambda labels: ["10.0.0.7", "10.0.0.8"] if labels == ["web", "users"] else None)
    number, flags, questions, answers, _, _ = struct.unpack_from("!HHHHHH", told)
    assert (number, flags & 0x000F, questions, answers) == (7, 0, 1, 2)
    assert told[12 : len(asked)] == asked[12:]
    assert told[-4:] == bytes([10, 0, 0, 8])


def test_unknown_name_is_told_apart_from_one_without_such_an_address() -> None:
    unknown = answer(query("web.users"), lambda _: None)
    other_kind = answer(query("web.users", AAAA), lambda _: ["10.0.0.7"])
    assert [struct.unpack_from("!H", one, 2)[0] & 0x000F for one in (unknown, other_kind)] == [3, 0]
    assert struct.unpack_from("!H", other_kind, 6)[0] == 0


@pytest.mark.parametrize(
    "message", [b"", b"\0" * 11, query("web.users")[:-3], b"\0\7\1\0\0\1\0\0\0\0\0\0\xc0\x0c"]
)
def test_what_is_no_query_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"query|question"):
        answer(message, lambda _: None)
